/* emu.cpp - see emu.h */
#include "emu.h"
#include "api.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define EMU_ASAN 1
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace {

constexpr size_t stack_bytes = 128 * 1024;
constexpr unsigned char fill_byte = 0xff;   /* a NaN in every float type */

/* ---- switching stacks --------------------------------------------------- */

#if defined(__x86_64__)
/* Saves the callee-saved registers and the stack pointer in *from, goes on
** where to was saved. */
extern "C" void emu_switch(void **from, void *to);
asm(R"(
.text
.globl emu_switch
.type emu_switch, @function
emu_switch:
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
.size emu_switch, .-emu_switch
)");
#endif

enum state { RUNNABLE, AT_BARRIER, AT_WARP, DONE };

struct fiber {
    enum state state;
    emu_place place;
    unsigned lane, warp;
    unsigned long warp_turn;    /* collective that it waits for */
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
    char *stack;
    void *fake_stack;           /* ASan's */
};

/* Two turns' worth of lanes' values: a lane may leave the next turn's value
** while a slower one still reads this turn's. */
struct warp {
    unsigned arrived;           /* mask */
    unsigned long turn;
    unsigned char value[2][32][64];
};

struct machine {
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    std::vector<char *> stacks;
    std::vector<size_t> order;
    size_t alive, at_barrier;
    fiber *current;
    emu_body body;
    void *closure;
    std::unique_ptr<unsigned char[]> shared;
    const void *main_stack;
    size_t main_stack_bytes;
    void *main_fake_stack;
#if defined(__x86_64__)
    void *main_sp;
#else
    ucontext_t main_context;
#endif
    ~machine() { for (char *s : stacks) free(s); }
};

thread_local machine m;

/* ---- fibers ------------------------------------------------------------- */

void leave_to_main(fiber *f)
{
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(f->state == DONE ? nullptr
                                                    : &f->fake_stack,
                                   m.main_stack, m.main_stack_bytes);
#endif
#if defined(__x86_64__)
    emu_switch(&f->sp, m.main_sp);
#else
    swapcontext(&f->context, &m.main_context);
#endif
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(f->fake_stack, nullptr, nullptr);
#endif
}

void enter(fiber *f)
{
    m.current = f;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&m.main_fake_stack, f->stack, stack_bytes);
#endif
#if defined(__x86_64__)
    emu_switch(&m.main_sp, f->sp);
#else
    swapcontext(&m.main_context, &f->context);
#endif
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(m.main_fake_stack, nullptr, nullptr);
#endif
    m.current = nullptr;
}

void fiber_main(void)
{
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &m.main_stack,
                                    &m.main_stack_bytes);
#endif
    fiber *f = m.current;

    m.body(m.closure);
    f->state = DONE;
    m.alive--;
    leave_to_main(f);
    abort();    /* never resumed */
}

void prepare(fiber *f, char *stack)
{
    f->stack = stack;
    f->fake_stack = nullptr;
#ifdef EMU_ASAN
    /* what the last fiber on this stack left behind: the frames that it did
    ** not return from, fiber_main's and leave_to_main's */
    ASAN_UNPOISON_MEMORY_REGION(stack + stack_bytes - 2048, 2048);
#endif
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(stack + stack_bytes);
    *--top = nullptr;                               /* keeps alignment */
    *--top = reinterpret_cast<void *>(fiber_main);  /* return address */
    top -= 6;                                       /* registers */
    f->sp = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = stack_bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
#endif
}

/* ---- the scheduler ------------------------------------------------------ */

[[noreturn]] void deadlock()
{
    fprintf(stderr, "emu: the block waits for ever:");
    for (const fiber &f : m.fibers)
        if (f.state != DONE)
            fprintf(stderr, " thread %u,%u %s", f.place.thread.x,
                    f.place.thread.y,
                    f.state == AT_BARRIER ? "at a barrier" : "in its warp");
    fprintf(stderr, "\n");
    abort();
}

void release_barrier()
{
    m.at_barrier = 0;
    for (fiber &f : m.fibers)
        if (f.state == AT_BARRIER) f.state = RUNNABLE;
}

void run_block()
{
    while (m.alive > 0) {
        bool ran = false;

        m.order.resize(m.fibers.size());
        emu_order_of(m.order.data(), m.order.size());
        for (size_t i : m.order) {
            fiber *f = &m.fibers[i];

            if (f->state == AT_WARP && m.warps[f->warp].turn != f->warp_turn)
                f->state = RUNNABLE;
            if (f->state != RUNNABLE) continue;
            ran = true;
            enter(f);
        }
        if (m.at_barrier > 0 && m.at_barrier == m.alive) release_barrier();
        else if (!ran && m.alive > 0) deadlock();
    }
}

void set_up_block(dim3 grid, dim3 block, dim3 at, size_t shared)
{
    size_t n = size_t{block.x} * block.y * block.z;

    m.fibers.resize(n);
    m.warps.resize((n + 31) / 32);
    for (warp &w : m.warps) w.arrived = 0, w.turn = 0;
    while (m.stacks.size() < n) {
        void *p = nullptr;
        if (posix_memalign(&p, 64, stack_bytes) != 0) abort();
        m.stacks.push_back(static_cast<char *>(p));
    }
    for (size_t i = 0; i < n; i++) {
        fiber *f = &m.fibers[i];
        unsigned u = static_cast<unsigned>(i);

        f->state = RUNNABLE;
        f->place = {dim3(u % block.x, u / block.x % block.y,
                         u / (block.x * block.y)), at, block, grid};
        f->lane = u % 32;
        f->warp = u / 32;
        prepare(f, m.stacks[i]);
    }
    m.alive = n;
    m.at_barrier = 0;
    m.shared.reset(new unsigned char[shared]);
    memset(m.shared.get(), fill_byte, shared);
}

}  // namespace

void emu_run(dim3 grid, dim3 block, size_t shared, emu_body body,
             void *closure)
{
    uint64_t n = uint64_t{grid.x} * grid.y * grid.z;
    struct emu_walk w = emu_walk_of(n);

    m.body = body;
    m.closure = closure;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t b = emu_walk_at(w, i), rest = b / grid.x;
        dim3 at(static_cast<unsigned>(b % grid.x),
                static_cast<unsigned>(rest % grid.y),
                static_cast<unsigned>(rest / grid.y));

        set_up_block(grid, block, at, shared);
        run_block();
    }
    m.shared.reset();
}

/* ASan knows what was given out. */
void emu_memory_given(void *, size_t) {}
void emu_memory_taken(void *) {}

const emu_place *emu_here(void)
{
    return &m.current->place;
}

void *emu_dynamic_shared(void)
{
    return m.shared.get();
}

unsigned emu_lane(void)
{
    return m.current->lane;
}

void emu_barrier(void)
{
    fiber *f = m.current;

    f->state = AT_BARRIER;
    m.at_barrier++;
    leave_to_main(f);
}

void emu_warp(unsigned mask, const void *mine, size_t n, const void *out[32])
{
    fiber *f = m.current;
    warp *w = &m.warps[f->warp];
    unsigned long turn = w->turn;
    unsigned slot = turn & 1;

    if (n > sizeof w->value[0][0] || !(mask >> f->lane & 1)) {
        fprintf(stderr, "emu: a lane calls a warp primitive wrongly\n");
        abort();
    }
    memcpy(w->value[slot][f->lane], mine, n);
    w->arrived |= 1u << f->lane;
    if (w->arrived == mask) {
        w->arrived = 0;
        w->turn++;
    } else {
        f->state = AT_WARP;
        f->warp_turn = turn;
        leave_to_main(f);
    }
    for (int i = 0; i < 32; i++) out[i] = w->value[slot][i];
}
