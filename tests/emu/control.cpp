/* control.cpp - see control.h */
#include "api.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <utility>

static const char *const seed_text = getenv("EMU_SEED");
static std::atomic<int> order_kind{seed_text == nullptr ? EMU_FORWARD
                                                        : EMU_SHUFFLED};
static std::atomic<uint64_t> order_seed{
    seed_text == nullptr ? 1 : strtoull(seed_text, nullptr, 0) * 2 + 1};
static std::atomic<long> api_calls{0}, api_fail{0};

void emu_set_order(enum emu_order order, uint64_t seed)
{
    order_kind = order;
    order_seed = seed * 2 + 1;
}

bool emu_shuffled(void) { return order_kind == EMU_SHUFFLED; }

/* Marsaglia's xorshift; threads that draw at once share the sequence. */
uint64_t emu_random(void)
{
    uint64_t now = order_seed, next;

    do {
        next = now;
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
    } while (!order_seed.compare_exchange_weak(now, next));
    return next;
}

void emu_order_of(size_t *order, size_t n)
{
    int kind = order_kind;

    for (size_t i = 0; i < n; i++)
        order[i] = kind == EMU_REVERSE ? n - 1 - i : i;
    if (kind != EMU_SHUFFLED) return;
    for (size_t i = n; i > 1; i--)
        std::swap(order[i - 1], order[emu_random() % i]);
}

/* Shuffled: i * step + start modulo n, with a step that has no divisor in
** common with n, near the golden section. */
struct emu_walk emu_walk_of(uint64_t n)
{
    int kind = order_kind;
    struct emu_walk w = {n, 1, 0};

    if (kind == EMU_REVERSE) w.step = n - 1, w.start = n - 1;
    if (kind != EMU_SHUFFLED || n < 2) return w;
    w.step = n * 5 / 8 | 1;
    while (std::gcd(w.step, n) != 1) w.step += 2;
    w.start = emu_random() % n;
    return w;
}

uint64_t emu_walk_at(struct emu_walk w, uint64_t i)
{
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>(i) * w.step + w.start) % w.n);
}

void *emu_sparse_new(size_t n)
{
    void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) return nullptr;
    emu_memory_given(p, n);
    return p;
}

void emu_sparse_free(void *p, size_t n)
{
    emu_memory_taken(p);
    munmap(p, n);
}

long emu_fail_at(long n)
{
    api_fail = n;
    return api_calls.exchange(0);
}

bool emu_api_fails(void)
{
    long call = ++api_calls;

    return call == api_fail;
}
