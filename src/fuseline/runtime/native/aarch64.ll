; Floating-point environment and store ordering of AArch64: FPCR holds the modes, FPSR the flags.
declare i64 @llvm.aarch64.get.fpcr()
declare i64 @llvm.aarch64.get.fpsr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.set.fpsr(i64)
declare void @llvm.aarch64.dmb(i32)
declare void @llvm.aarch64.hint(i32)

; Saves the caller's modes and flags and goes to the default environment; fp_leave puts both back.
define internal i64 @fp_enter() alwaysinline nounwind {
  %modes = call i64 @llvm.aarch64.get.fpcr()
  %flags = call i64 @llvm.aarch64.get.fpsr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  %low = and i64 %modes, 4294967295
  %high = shl i64 %flags, 32
  %saved = or i64 %low, %high
  ret i64 %saved
}

define internal void @fp_leave(i64 %saved) alwaysinline nounwind {
  %modes = and i64 %saved, 4294967295
  %flags = lshr i64 %saved, 32
  call void @llvm.aarch64.set.fpcr(i64 %modes)
  call void @llvm.aarch64.set.fpsr(i64 %flags)
  ret void
}

define internal void @order_stores() alwaysinline nounwind {
  call void @llvm.aarch64.dmb(i32 11)
  ret void
}

define internal void @pause() alwaysinline nounwind {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
