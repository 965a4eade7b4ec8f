; A body that carries each row of its operands through several kernels, so that what passes between them stays in the caches.
; It has 0 lanes: it steps through its operands by their strides, a row a pass (block.ll).
;
; Its first operand, which stands still, is a list of 64-bit numbers: 0 how many kernels there are, 1 the bytes of memory that
; a row needs, 2 those of them that a list of pointers takes. Then follow, for each kernel: its record, the number n of its
; operands, the items of its operands in a row, flags of its runs (block.ll), where in a row's memory it has a carry for each
; operand (streaming.ll; -1: none, its outputs are stored as usual), and n places, n offsets and n steps in bytes. A place is
; one of the body's own operands, or -1 for the memory of a row, or -2 for this list.

define void @fl_stages(ptr %operands, ptr %increments, i64 %rows, i64 %flags) nounwind {
entry:
  %program = load ptr, ptr %operands, align 8
  %stages = load i64, ptr %program, align 8
  %bytes_at = getelementptr i64, ptr %program, i64 1
  %bytes = load i64, ptr %bytes_at, align 8
  %list_bytes_at = getelementptr i64, ptr %program, i64 2
  %list_bytes = load i64, ptr %list_bytes_at, align 8
  %first_stage = getelementptr i64, ptr %program, i64 3
  %heap = call ptr @heap_scratch(i64 %bytes, i64 4096)
  %stack_bytes = call i64 @stack_scratch(ptr %heap, i64 %bytes)
  %stack = alloca i8, i64 %stack_bytes, align 64
  %args = call ptr @scratch(ptr %heap, ptr %stack)
  %memory = getelementptr i8, ptr %args, i64 %list_bytes
  call void @carries_of_stages(ptr %program, ptr %memory, i1 true)
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  br label %stage
stage:
  %s = phi i64 [ 0, %row ], [ %s_next, %stage_end ]
  %at = phi ptr [ %first_stage, %row ], [ %next_stage, %stage_end ]
  %k = load ptr, ptr %at, align 8
  %nops_at = getelementptr i64, ptr %at, i64 1
  %nops = load i64, ptr %nops_at, align 8
  %count_at = getelementptr i64, ptr %at, i64 2
  %count = load i64, ptr %count_at, align 8
  %block_flags_at = getelementptr i64, ptr %at, i64 3
  %block_flags = load i64, ptr %block_flags_at, align 8
  %carries_offset_at = getelementptr i64, ptr %at, i64 4
  %carries_offset = load i64, ptr %carries_offset_at, align 8
  %carries = getelementptr i8, ptr %memory, i64 %carries_offset
  %places = getelementptr i64, ptr %at, i64 5
  %offsets = getelementptr i64, ptr %places, i64 %nops
  %steps = getelementptr i64, ptr %offsets, i64 %nops
  %next_stage = getelementptr i64, ptr %steps, i64 %nops
  br label %operand
operand:
  %i = phi i64 [ 0, %stage ], [ %i_next, %point ]
  %place_at = getelementptr i64, ptr %places, i64 %i
  %place = load i64, ptr %place_at, align 8
  %offset_at = getelementptr i64, ptr %offsets, i64 %i
  %offset = load i64, ptr %offset_at, align 8
  %own = icmp slt i64 %place, 0
  br i1 %own, label %inside, label %outside
inside:
  %in_memory = icmp eq i64 %place, -1
  %inner = select i1 %in_memory, ptr %memory, ptr %program
  br label %point
outside:
  %operand_at = getelementptr ptr, ptr %operands, i64 %place
  %start = load ptr, ptr %operand_at, align 8
  %increment_at = getelementptr i64, ptr %increments, i64 %place
  %increment = load i64, ptr %increment_at, align 8
  %distance = mul i64 %increment, %r
  %outer = getelementptr i8, ptr %start, i64 %distance
  br label %point
point:
  %base = phi ptr [ %inner, %inside ], [ %outer, %outside ]
  %p = getelementptr i8, ptr %base, i64 %offset
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  store ptr %p, ptr %arg_at, align 8
  %i_next = add i64 %i, 1
  %more_operands = icmp slt i64 %i_next, %nops
  br i1 %more_operands, label %operand, label %compute
compute:
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %walks = icmp eq i64 %lanes, 0
  br i1 %walks, label %walk, label %block
walk:
  %body = load ptr, ptr %k, align 8
  call void %body(ptr %args, ptr %steps, i64 1, i64 %block_flags)
  br label %stage_end
block:
  call void @fl_block(ptr %k, ptr %args, ptr %steps, i64 %count, i64 %block_flags, ptr %carries)
  br label %stage_end
stage_end:
  %s_next = add i64 %s, 1
  %more_stages = icmp slt i64 %s_next, %stages
  br i1 %more_stages, label %stage, label %row_end
row_end:
  %r_next = add i64 %r, 1
  %more_rows = icmp slt i64 %r_next, %rows
  br i1 %more_rows, label %row, label %done
done:
  call void @carries_of_stages(ptr %program, ptr %memory, i1 false)
  call void @free_scratch(ptr %heap)
  ret void
}

; The carries of all stages that have some: empty, or written where they belong.
define internal void @carries_of_stages(ptr %program, ptr %memory, i1 %begins) nounwind {
entry:
  %stages = load i64, ptr %program, align 8
  %first_stage = getelementptr i64, ptr %program, i64 3
  br label %stage
stage:
  %s = phi i64 [ 0, %entry ], [ %s_next, %stage_end ]
  %at = phi ptr [ %first_stage, %entry ], [ %next_stage, %stage_end ]
  %nops_at = getelementptr i64, ptr %at, i64 1
  %nops = load i64, ptr %nops_at, align 8
  %offset_at = getelementptr i64, ptr %at, i64 4
  %offset = load i64, ptr %offset_at, align 8
  %none = icmp slt i64 %offset, 0
  br i1 %none, label %stage_end, label %some
some:
  %carries = getelementptr i8, ptr %memory, i64 %offset
  call void @each_carry(ptr %carries, i64 %nops, i1 %begins)
  br label %stage_end
stage_end:
  %operand_words = mul i64 %nops, 3
  %words = add i64 %operand_words, 5
  %next_stage = getelementptr i64, ptr %at, i64 %words
  %s_next = add i64 %s, 1
  %more = icmp slt i64 %s_next, %stages
  br i1 %more, label %stage, label %done
done:
  ret void
}
