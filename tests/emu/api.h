/*
** api.h - what the parts of the emulated runtime share: runtime.cpp, which is
** compiled against the headers of this folder for emulated threads and
** against CUDA's own for the PTX interpreter (tests/ptx), and those that
** launch.
*/
#ifndef EMU_API_H
#define EMU_API_H

#include <functional>

#include "tests/emu/control.h"

/* Counts an API call; leaves the function where the test makes it fail. */
#define EMU_CALL(failure)                  \
    do {                                   \
        if (emu_api_fails()) return failure; \
    } while (0)

/* Adds work to a stream: it is called until it returns true, after what was
** added before; see streams.cpp. */
void emu_stream_push(struct CUstream_st *s, std::function<bool()> work);
/* What the stream holds is not done any more. */
void emu_stream_drop(struct CUstream_st *s);
/* Does what the thread's streams hold and can be done. */
void emu_finish_all(void);

/* Whether a launch is within what a GPU takes, and within what was allowed
** for its kernel; if not, cudaGetLastError will say so. */
struct emu_shape { unsigned x, y, z; };
bool emu_may_launch(const void *kernel, emu_shape grid, emu_shape block,
                    size_t shared);
/* cudaFuncSetAttribute: a cudaError_t */
int emu_allow_shared(const void *kernel, int what, int bytes);

/* Streams, events and cuBLAS handles count as open. */
void emu_handle_opened(int n);

/* Device memory is given out, or taken back: for who checks accesses. */
void emu_memory_given(void *p, size_t n);
void emu_memory_taken(void *p);

#endif
