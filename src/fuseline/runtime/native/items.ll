; Moving items: between strided memory and packed vectors, and repeating one.

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Copies %n items of %item bytes (1, 2, 4 or 8); each side moves by its own step in bytes. The sides do not overlap.
define internal void @copy_items(ptr %to0, i64 %to_step, ptr %from0, i64 %from_step, i64 %n, i64 %item) nounwind {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %look, label %done
look:
  %to_dense = icmp eq i64 %to_step, %item
  %from_dense = icmp eq i64 %from_step, %item
  %from_still = icmp eq i64 %from_step, 0
  %several = icmp ne i64 %n, 1
  %both_dense = and i1 %to_dense, %from_dense
  %dense = and i1 %both_dense, %several
  br i1 %dense, label %bulk, label %not_dense
bulk:
  %bytes = mul i64 %n, %item
  call void @llvm.memcpy.p0.p0.i64(ptr %to0, ptr %from0, i64 %bytes, i1 false)
  br label %done
not_dense:
  %to_dense_several = and i1 %to_dense, %several
  %repeat = and i1 %to_dense_several, %from_still
  br i1 %repeat, label %same, label %choose
same:
  call void @repeat_item(ptr %to0, ptr %from0, i64 %n, i64 %item)
  br label %done
choose:
  switch i64 %item, label %loop1 [ i64 2, label %loop2
                                   i64 4, label %loop4
                                   i64 8, label %loop8 ]
loop1:
  %i1 = phi i64 [ 0, %choose ], [ %j1, %loop1 ]
  %to1 = phi ptr [ %to0, %choose ], [ %t1, %loop1 ]
  %from1 = phi ptr [ %from0, %choose ], [ %f1, %loop1 ]
  %v1 = load i8, ptr %from1, align 1
  store i8 %v1, ptr %to1, align 1
  %t1 = getelementptr i8, ptr %to1, i64 %to_step
  %f1 = getelementptr i8, ptr %from1, i64 %from_step
  %j1 = add i64 %i1, 1
  %c1 = icmp slt i64 %j1, %n
  br i1 %c1, label %loop1, label %done
loop2:
  %i2 = phi i64 [ 0, %choose ], [ %j2, %loop2 ]
  %to2 = phi ptr [ %to0, %choose ], [ %t2, %loop2 ]
  %from2 = phi ptr [ %from0, %choose ], [ %f2, %loop2 ]
  %v2 = load i16, ptr %from2, align 1
  store i16 %v2, ptr %to2, align 1
  %t2 = getelementptr i8, ptr %to2, i64 %to_step
  %f2 = getelementptr i8, ptr %from2, i64 %from_step
  %j2 = add i64 %i2, 1
  %c2 = icmp slt i64 %j2, %n
  br i1 %c2, label %loop2, label %done
loop4:
  %i4 = phi i64 [ 0, %choose ], [ %j4, %loop4 ]
  %to4 = phi ptr [ %to0, %choose ], [ %t4, %loop4 ]
  %from4 = phi ptr [ %from0, %choose ], [ %f4, %loop4 ]
  %v4 = load i32, ptr %from4, align 1
  store i32 %v4, ptr %to4, align 1
  %t4 = getelementptr i8, ptr %to4, i64 %to_step
  %f4 = getelementptr i8, ptr %from4, i64 %from_step
  %j4 = add i64 %i4, 1
  %c4 = icmp slt i64 %j4, %n
  br i1 %c4, label %loop4, label %done
loop8:
  %i8 = phi i64 [ 0, %choose ], [ %j8, %loop8 ]
  %to8 = phi ptr [ %to0, %choose ], [ %t8, %loop8 ]
  %from8 = phi ptr [ %from0, %choose ], [ %f8, %loop8 ]
  %v8 = load i64, ptr %from8, align 1
  store i64 %v8, ptr %to8, align 1
  %t8 = getelementptr i8, ptr %to8, i64 %to_step
  %f8 = getelementptr i8, ptr %from8, i64 %from_step
  %j8 = add i64 %i8, 1
  %c8 = icmp slt i64 %j8, %n
  br i1 %c8, label %loop8, label %done
done:
  ret void
}

; One item repeated over 64 bytes.
define internal <8 x i64> @repeated(ptr %from, i64 %item) alwaysinline nounwind {
entry:
  switch i64 %item, label %one [ i64 2, label %two
                                 i64 4, label %four
                                 i64 8, label %eight ]
one:
  %v1 = load i8, ptr %from, align 1
  %w1 = zext i8 %v1 to i64
  %p1 = mul i64 %w1, 72340172838076673
  br label %spread
two:
  %v2 = load i16, ptr %from, align 1
  %w2 = zext i16 %v2 to i64
  %p2 = mul i64 %w2, 281479271743489
  br label %spread
four:
  %v4 = load i32, ptr %from, align 1
  %w4 = zext i32 %v4 to i64
  %p4 = mul i64 %w4, 4294967297
  br label %spread
eight:
  %p8 = load i64, ptr %from, align 1
  br label %spread
spread:
  %pattern = phi i64 [ %p1, %one ], [ %p2, %two ], [ %p4, %four ], [ %p8, %eight ]
  %first = insertelement <8 x i64> poison, i64 %pattern, i64 0
  %wide = shufflevector <8 x i64> %first, <8 x i64> poison, <8 x i32> zeroinitializer
  ret <8 x i64> %wide
}

; Writes one item %n times side by side: 64 bytes at a time, the last of them at the end. What is left of fewer than 64 is a
; whole number of items.
define internal void @repeat_item(ptr %to, ptr %from, i64 %n, i64 %item) nounwind {
entry:
  %buffer = alloca <8 x i64>, align 64
  %wide = call <8 x i64> @repeated(ptr %from, i64 %item)
  %bytes = mul i64 %n, %item
  %many = icmp uge i64 %bytes, 64
  br label %whole
whole:
  %at = phi i64 [ 0, %entry ], [ %next, %store ]
  %next = add i64 %at, 64
  %fits = icmp ule i64 %next, %bytes
  br i1 %fits, label %store, label %rest
store:
  %place = getelementptr i8, ptr %to, i64 %at
  store <8 x i64> %wide, ptr %place, align 1
  br label %whole
rest:
  %end = icmp uge i64 %at, %bytes
  br i1 %end, label %done, label %last
last:
  br i1 %many, label %overlap, label %few
overlap:
  %end_place = getelementptr i8, ptr %to, i64 %bytes
  %last_place = getelementptr i8, ptr %end_place, i64 -64
  store <8 x i64> %wide, ptr %last_place, align 1
  br label %done
few:
  %left_place = getelementptr i8, ptr %to, i64 %at
  %left = sub i64 %bytes, %at
  store <8 x i64> %wide, ptr %buffer, align 64
  call void @llvm.memcpy.p0.p0.i64(ptr %left_place, ptr %buffer, i64 %left, i1 false)
  br label %done
done:
  ret void
}

; Moves each pointer of %at by %n times its step.
define internal void @advance(ptr %at, ptr %steps, i64 %n, i64 %nops) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %loop ]
  %p_at = getelementptr ptr, ptr %at, i64 %i
  %p = load ptr, ptr %p_at, align 8
  %step_at = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %step_at, align 8
  %distance = mul i64 %step, %n
  %q = getelementptr i8, ptr %p, i64 %distance
  store ptr %q, ptr %p_at, align 8
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %loop, label %done
done:
  ret void
}
