/*
** run.h - a launch while it runs; for run.cpp, lanes.cpp, memory.cpp and
** watch.cpp. See ptx.h.
*/
#ifndef PTX_RUN_H
#define PTX_RUN_H

#include "ptx.h"

/* ---- who touched what (watch.cpp) ------------------------------------------
** A stamp says when and by whom: 28 bits of epoch, which grows at every
** barrier and with every block, never shrinks; 22 bits of the warp's own
** syncs; 10 bits of thread; 4 flags. */
struct ptx_cell { u64 w, r; };  /* last write, last reads */

enum {
    STAMP_LANES = 1,            /* r: several lanes since the warp's sync */
    STAMP_WARPS = 2,            /* r: several warps in this epoch */
    STAMP_BLOCKS = 4,           /* r: several blocks of this launch */
    STAMP_PENDING = 8           /* w: by a cp.async that is not waited for */
};
static inline u64 stamp_of(u64 epoch, u32 syncs, u32 thread)
{
    return epoch << 36 | u64{syncs} << 14 | u64{thread} << 4;
}
static inline u64 stamp_epoch(u64 s) { return s >> 36; }
static inline u32 stamp_syncs(u64 s) { return s >> 14 & 0x3fffff; }
static inline u32 stamp_thread(u64 s) { return s >> 4 & 1023; }

enum ptx_trouble { FINE, UNSET, PENDING, RACE, OTHER_BLOCK };

/* Stamps from launch on are of this launch, from block on of this block; for
** shared memory both are the block's. */
struct ptx_since { u64 launch, block; bool shared; };

/* Whether what s stands for is ordered before what me does: the same
** thread's, an earlier epoch's, or the warp's own before its last sync. */
bool stamp_before(u64 s, u64 me);
ptx_trouble cell_read(ptx_cell &c, u64 me, ptx_since since);
ptx_trouble cell_write(ptx_cell &c, u64 me, ptx_since since);

/* The cells of an aligned access to global memory, up to 16 bytes. */
ptx_cell *cells_of(u64 addr, unsigned bytes, unsigned *n);
/* Whether an allocation holds [addr, addr + bytes); of a launch, cached. */
bool memory_holds(u64 addr, u64 bytes);
void memory_forget();           /* what is cached */
std::string memory_about(u64 addr);

/* ---- a launch ----------------------------------------------------------- */

struct ptx_level { u32 mask, pc, meet; };   /* lanes that go together */

/* A cp.async between its issue and its wait. */
struct ptx_copy { u32 lane, group, to; u64 from; unsigned bytes, read; };

struct ptx_warp {
    unsigned char *file;
    std::vector<u32> pred;
    std::vector<ptx_level> stack;
    u32 number, lanes, alive, syncs;
    bool at_barrier;
    u32 groups[32];             /* a lane's commits */
    std::vector<ptx_copy> copy;
};

struct ptx_machine {
    ptx_code *c;
    ptx_grid grid, block, at;
    u32 threads;
    const unsigned char *params;
    std::vector<unsigned char> shared, local, files;
    std::vector<ptx_cell> cell;             /* of shared memory */
    std::vector<ptx_warp> warp;
    u64 epoch = 1;
    ptx_since since, since_shared;
    const ptx_warp *running;
    const ptx_ins *ins;
    /* time.cpp's: whether PTX_TIME is set; the running code's clocks; whether
    ** the instruction read what nobody in the launch had */
    bool timed, fresh;
    std::shared_ptr<struct ptx_clock> clock;
    const ptx_code *clock_of;
};
extern ptx_machine ptx_m;

template <typename T> static inline T *ptx_at(const ptx_warp &w, u32 place)
{
    return reinterpret_cast<T *>(w.file + place);
}

void ptx_lanes(ptx_warp &w, const ptx_ins &i, u32 mask);
void ptx_load(ptx_warp &w, const ptx_ins &i, u32 mask);
void ptx_store(ptx_warp &w, const ptx_ins &i, u32 mask);
void ptx_matrix(ptx_warp &w, const ptx_ins &i, u32 mask);
void ptx_async(ptx_warp &w, const ptx_ins &i, u32 mask);
void ptx_async_wait(ptx_warp &w, const ptx_ins &i, u32 mask);

#endif
