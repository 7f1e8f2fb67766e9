/*
** streams.cpp - streams and events of tests/emu, and what a launch may ask
** for.
**
** A stream is a queue. In the shuffled order (emu_set_order) what is added to
** one waits there: it is done when its thread waits for it, or earlier, at
** any call that adds work, by a seeded coin, streams taking turns at random.
** So a result that depends on an order that nothing asks for shows, as does
** host memory that is changed too early. In the other orders work is done at
** once where nothing waits before it on its stream.
**
** A stream's work is done by the thread that used it last: ranks are threads
** with streams of their own. A thread that waits for work which another's
** must precede does that too, where its owner is elsewhere: a GPU goes on
** while its host threads sleep.
*/
#include <cuda_runtime.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emu/api.h"

#define CALL EMU_CALL(cudaErrorLaunchFailure)

/* busy is held while its work is done or added to. */
struct CUstream_st {
    std::recursive_mutex busy;
    std::deque<std::function<bool()>> work;
};

/* Recorded so many times, and passed so many times. */
struct event_state { std::atomic<long> recorded{0}, passed{0}; };
struct CUevent_st { std::shared_ptr<event_state> s; };

static std::atomic<long> open_handles;

long emu_open_handles(void) { return open_handles.load(); }
void emu_handle_opened(int n) { open_handles += n; }

/* ---- doing work --------------------------------------------------------- */

/* The streams that a thread used last. */
struct used;
static std::mutex owners;
static std::map<cudaStream_t, used *> owner;

struct used {
    std::vector<cudaStream_t> streams;

    void drop(cudaStream_t s)
    {
        streams.erase(std::remove(streams.begin(), streams.end(), s),
                      streams.end());
    }
    ~used()
    {
        std::lock_guard<std::mutex> hold(owners);
        for (cudaStream_t s : streams) owner[s] = nullptr;
    }
};
static thread_local used mine;

/* The calling thread uses the stream from now on. */
static void adopt(cudaStream_t s)
{
    std::lock_guard<std::mutex> hold(owners);
    used *&o = owner[s];

    if (o == &mine) return;
    if (o != nullptr) o->drop(s);
    mine.streams.push_back(s);
    o = &mine;
}

static void forget(cudaStream_t s)
{
    std::lock_guard<std::mutex> hold(owners);

    mine.drop(s);
    owner.erase(s);
}

static std::vector<cudaStream_t> my_streams()
{
    std::lock_guard<std::mutex> hold(owners);

    return mine.streams;
}

/* The first piece of the work of a stream that this thread holds, if it can
** be done now. */
static bool step_held(cudaStream_t s)
{
    if (s->work.empty()) return false;
    /* the work may add to the stream */
    std::function<bool()> first = s->work.front();
    if (!first()) return false;
    s->work.pop_front();
    return true;
}
static bool step(cudaStream_t s)
{
    std::unique_lock<std::recursive_mutex> hold(s->busy, std::try_to_lock);

    return hold && step_held(s);
}

static bool is_empty(cudaStream_t s)
{
    std::lock_guard<std::recursive_mutex> hold(s->busy);

    return s->work.empty();
}

/* A piece of work of any of the thread's streams. */
static bool step_any()
{
    std::vector<cudaStream_t> all = my_streams();
    size_t n = all.size(), from = n < 2 ? 0 : emu_random() % n;

    for (size_t i = 0; i < n; i++)
        if (step(all[(from + i) % n])) return true;
    return false;
}

/* A stream of another thread that nobody is busy with, held; found says
** whether some are busy. A stream goes only after "forget". */
static cudaStream_t hold_other(size_t skip, bool *busy)
{
    std::lock_guard<std::mutex> hold(owners);

    for (const auto &o : owner) {
        if (o.second == &mine) continue;
        if (!o.first->busy.try_lock()) {
            *busy = true;
            continue;
        }
        if (!o.first->work.empty() && skip-- == 0) return o.first;
        o.first->busy.unlock();
    }
    return nullptr;
}

/* A piece of work of another thread's streams. "busy": none, but somebody is
** at one. */
static bool step_other(bool *busy)
{
    bool done = false;

    *busy = false;
    for (size_t i = 0; !done; i++) {
        cudaStream_t s = hold_other(i, busy);

        if (s == nullptr) return false;
        done = step_held(s);
        s->busy.unlock();
    }
    return true;
}

/* One piece of work that this thread's streams may wait for. False: there is
** none, and nobody is at one. */
static bool go_on()
{
    bool busy;

    if (step_any() || step_other(&busy)) return true;
    if (busy) sched_yield();
    return busy;
}

void emu_stream_push(cudaStream_t s, std::function<bool()> work)
{
    if (s == nullptr) {
        if (!work()) abort();
        return;
    }
    adopt(s);
    {
        std::lock_guard<std::recursive_mutex> hold(s->busy);
        s->work.push_back(std::move(work));
    }
    if (emu_shuffled())
        while (emu_random() % 4 == 0 && step_any()) {}
    else
        while (step(s)) {}
}

static void finish(cudaStream_t s)
{
    if (s == nullptr) return;
    adopt(s);
    while (!is_empty(s))
        if (!go_on()) sched_yield();
}

void emu_stream_drop(cudaStream_t s)
{
    adopt(s);
    std::lock_guard<std::recursive_mutex> hold(s->busy);
    s->work.clear();
}

/* Also those of threads that have ended. */
void emu_finish_all(void)
{
    std::vector<cudaStream_t> left;

    {
        std::lock_guard<std::mutex> hold(owners);
        for (const auto &o : owner)
            if (o.second == nullptr) left.push_back(o.first);
    }
    for (cudaStream_t s : left) adopt(s);
    for (cudaStream_t s : my_streams())
        while (!is_empty(s) && go_on()) {}
}

/* ---- streams ------------------------------------------------------------ */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    CALL;
    *s = new CUstream_st;
    adopt(*s);
    open_handles++;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    adopt(s);
    while (!is_empty(s) && go_on()) {}
    forget(s);
    is_empty(s);        /* nobody is at it any more, and none will be */
    delete s;
    open_handles--;
    return emu_api_fails() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    CALL;
    finish(s);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    CALL;
    if (s == nullptr) return cudaSuccess;
    adopt(s);
    while (step_any() && (!emu_shuffled() || emu_random() % 4 != 0)) {}
    return is_empty(s) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize()
{
    CALL;
    emu_finish_all();
    return cudaSuccess;
}

/* ---- events ------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    CALL;
    *e = new CUevent_st{std::make_shared<event_state>()};
    open_handles++;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    open_handles--;
    return emu_api_fails() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    CALL;
    std::shared_ptr<event_state> state = e->s;
    long turn = ++state->recorded;

    emu_stream_push(s, [=] {
        if (state->passed < turn) state->passed = turn;
        return true;
    });
    return cudaSuccess;
}
/* What was recorded last when this is called is waited for. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    CALL;
    std::shared_ptr<event_state> state = e->s;
    long turn = state->recorded;

    emu_stream_push(s, [=] { return state->passed >= turn; });
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    CALL;
    while (e->s->passed < e->s->recorded)
        if (!go_on()) sched_yield();
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    CALL;
    *ms = 1;
    return cudaSuccess;
}

/* ---- what a launch may ask for ------------------------------------------ */

static const size_t shared_most = 227 * 1024;   /* sm_90; sm_80: 163 */
static std::mutex limits_lock;
static std::map<const void *, size_t> limits;   /* cudaFuncSetAttribute */
static thread_local cudaError_t last_error = cudaSuccess;

int emu_allow_shared(const void *kernel, int what, int bytes)
{
    CALL;
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || bytes < 0 ||
        static_cast<size_t>(bytes) > shared_most)
        return last_error = cudaErrorInvalidValue;
    std::lock_guard<std::mutex> hold(limits_lock);
    limits[kernel] = static_cast<size_t>(bytes);
    return cudaSuccess;
}

static bool fits(const emu_shape &g, const emu_shape &b, size_t shared,
                 size_t limit)
{
    return g.x > 0 && g.y > 0 && g.z > 0 && b.x > 0 && b.y > 0 && b.z > 0 &&
           g.x <= 0x7fffffff && g.y <= 65535 && g.z <= 65535 &&
           b.x <= 1024 && b.y <= 1024 && b.z <= 64 &&
           size_t{b.x} * b.y * b.z <= 1024 && shared <= limit;
}

bool emu_may_launch(const void *kernel, emu_shape grid, emu_shape block,
                    size_t shared)
{
    size_t limit = 48 * 1024;

    {
        std::lock_guard<std::mutex> hold(limits_lock);
        auto at = limits.find(kernel);
        if (at != limits.end()) limit = std::max(limit, at->second);
    }
    if (fits(grid, block, shared, limit)) return true;
    last_error = cudaErrorInvalidConfiguration;
    return false;
}

cudaError_t cudaGetLastError()
{
    CALL;
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
