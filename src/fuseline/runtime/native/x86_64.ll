; Floating-point environment and store ordering of x86-64. MXCSR: bits 0-5 flags, 6 DAZ, 7-12 masks, 13-14 rounding, 15 FTZ.
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.sfence()
declare void @llvm.x86.sse2.pause()

; Saves the caller's modes and flags and goes to the default environment; fp_leave puts both back.
define internal i64 @fp_enter() alwaysinline nounwind {
  %at = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %saved = load i32, ptr %at, align 4
  %control = and i32 %saved, 65472
  %is_default = icmp eq i32 %control, 8064
  br i1 %is_default, label %done, label %change
change:
  store i32 8064, ptr %at, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  br label %done
done:
  %wide = zext i32 %saved to i64
  ret i64 %wide
}

define internal void @fp_leave(i64 %saved) alwaysinline nounwind {
  %at = alloca i32, align 4
  %narrow = trunc i64 %saved to i32
  store i32 %narrow, ptr %at, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  ret void
}

define internal void @order_stores() alwaysinline nounwind {
  call void @llvm.x86.sse.sfence()
  ret void
}

define internal void @pause() alwaysinline nounwind {
  call void @llvm.x86.sse2.pause()
  ret void
}
