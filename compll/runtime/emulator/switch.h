// Switching between stacks: saves the registers that a call preserves, on the stack that is left.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" void emulator_switch(void** save, void* to);

#if defined(__x86_64__)
asm(R"(.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,@function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, .-emulator_switch
)");

// A stack pointer that, switched to, calls `entry`.
inline void* new_stack(char* top, void (*entry)()) {
    void** at = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
    *--at = nullptr;  // entry sees the alignment of a called function
    *--at = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--at = nullptr;
    return at;
}
#elif defined(__aarch64__)
asm(R"(.text
.globl emulator_switch
.hidden emulator_switch
emulator_switch:
    sub sp, sp, #176
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
)");

inline void* new_stack(char* top, void (*entry)()) {
    void** at = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15}) - 176);
    for (int saved = 0; saved < 22; ++saved) at[saved] = nullptr;
    at[11] = reinterpret_cast<void*>(entry);  // the link register
    return at;
}
#else
#error "the emulator switches stacks on x86-64 and AArch64 only"
#endif
