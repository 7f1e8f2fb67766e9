/*
** ptx.h - the PTX that nvcc makes of cuda/, executed on the CPU.
**
** The interpreter is ours: it knows the instructions that our kernels use and
** ends with the name of one that it does not know. It executes a warp's 32
** lanes side by side, blocks one after another, and holds every kernel to
** what a GPU demands or what makes it slow:
**
**   races      two threads reach a byte of shared or global memory, one of
**              them writing, and neither bar.sync nor bar.warp.sync lies
**              between; between blocks of a launch nothing orders
**   bounds     an access leaves the allocation, the block's shared memory,
**              the kernel's parameters; or is not aligned to its size
**   unset      a read of shared memory that the block did not write, or that
**              an unfinished cp.async is still to write
**   divergence a barrier, a shuffle or a matrix instruction without all the
**              lanes that it names
**
** What is found is printed with kernel, source line, block and thread, and
** the process aborts. Counts by kernel are written at the end of the process
** (count.cpp).
**
** text.cpp reads PTX, build.cpp makes it executable, run.cpp, lanes.cpp and
** memory.cpp execute it, watch.cpp keeps who touched what, runtime.cpp stands
** in for the CUDA runtime's launches.
*/
#ifndef PTX_H
#define PTX_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

typedef uint32_t u32;
typedef uint64_t u64;

/* ---- as read (text.cpp) ------------------------------------------------- */

/* Where an instruction comes from: file and line, and the place it was
** inlined at (0: none). Files by number, see ptx_function.file. */
struct ptx_place { int file, line, at_file, at_line; };

enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL,
                 SPACE_PARAM };

struct ptx_operand {
    enum kind { NONE, SINK, REG, IMM, LIST, MEM, LABEL } kind = NONE;
    int reg = -1;               /* REG; MEM: base, -1: none */
    int64_t imm = 0;            /* IMM: bits; MEM: offset; LABEL: number */
    std::vector<ptx_operand> list;
};

struct ptx_statement {
    std::string form;           /* the opcode with all that follows it */
    int guard = -1;             /* predicate register */
    bool negate = false;
    std::vector<ptx_operand> o;
    ptx_place place = {0, 0, 0, 0};
};

/* Registers of a thread: a predicate, or 32 or 64 bits. 16 bits live in 32. */
enum ptx_width { WIDTH_PRED = 0, WIDTH_4 = 4, WIDTH_8 = 8 };

/* The first registers are the special ones. */
enum ptx_special {
    TID_X, TID_Y, TID_Z, NTID_X, NTID_Y, NTID_Z, CTAID_X, CTAID_Y, CTAID_Z,
    NCTAID_X, NCTAID_Y, NCTAID_Z, LANE_ID, WARP_ID, SPECIALS
};

struct ptx_param { size_t offset, bytes; };

struct ptx_function {
    std::string name;
    std::vector<ptx_param> param;
    size_t param_bytes = 0;
    size_t static_shared = 0;   /* dynamic shared memory begins there */
    size_t local_bytes = 0;     /* a thread's */
    u32 max_threads = 1024;
    std::vector<ptx_width> reg;
    std::vector<ptx_statement> body;
    std::vector<size_t> label;  /* index into body */
    std::shared_ptr<std::unordered_map<int, std::string>> file;
};

/* A source's PTX; text must outlive it. Functions are parsed when asked for. */
struct ptx_source {
    explicit ptx_source(const char *text, size_t n);
    std::vector<std::string> entries() const;
    ptx_function read(const std::string &entry);
private:
    friend struct ptx_reader;
    const char *text_, *end_;
    std::unordered_map<std::string, const char *> entry_, func_;
    std::unordered_map<std::string, std::vector<unsigned char>> global_;
    std::shared_ptr<std::unordered_map<int, std::string>> file_;
};

/* ---- as executed (build.cpp) -------------------------------------------- */

/* Offsets of operands: a register's 32 lanes side by side in a warp's file,
** or the number of a predicate, which is a mask of lanes. */
struct ptx_ins {
    uint16_t op;
    bool negate;
    uint8_t n;                  /* of a list */
    int16_t guard;
    uint8_t bytes;              /* of an element in memory */
    uint8_t space;              /* enum ptx_space */
    u32 d, a, b, c;
    int64_t imm;
    u32 more;                   /* further operands, in ptx_code.list */
    u32 statement;              /* of the function, for messages */
};

/* What has not the form of a lane's function; the others: forms.h. */
enum ptx_control {
    OP_BRA, OP_RET, OP_BAR, OP_WARP_BAR, OP_SHFL_IDX, OP_SHFL_UP, OP_SHFL_DOWN,
    OP_SHFL_BFLY, OP_VOTE_ANY, OP_VOTE_ALL, OP_BALLOT, OP_ACTIVE, OP_LD,
    OP_LD_SIGNED, OP_ST, OP_LDMATRIX, OP_MMA, OP_ASYNC, OP_ASYNC_COMMIT,
    OP_ASYNC_WAIT, OP_PACK, OP_UNPACK, OP_NOTHING, OP_LANES
};

struct ptx_counts {
    u64 launches, blocks, instructions, products, loads, load_bytes,
        load_sectors, stores, store_bytes, store_sectors, shared, conflicts,
        matrix_loads, matrix_conflicts, barriers;
    u64 slots, cycles;          /* time.h; of all blocks */
    u64 threads, shared_bytes;  /* of a block, the most */
};

struct ptx_code {
    ptx_function f;
    std::vector<ptx_ins> ins;
    std::vector<u32> list;
    size_t file_bytes, preds;   /* of a warp */
    std::vector<unsigned char> image;   /* a file with its constants */
    u32 special[SPECIALS];      /* offset, ~0: not used */
    int shared_shift;           /* log2 of what shared accesses are units of */
    ptx_counts count;
};

std::unique_ptr<ptx_code> ptx_build(ptx_function f);

/* ---- running ------------------------------------------------------------ */

struct ptx_grid { u32 x, y, z; };

/* params: the kernel's parameter block, f.param_bytes long. One launch runs
** at a time in a process. */
void ptx_run(ptx_code *c, ptx_grid grid, ptx_grid block, size_t dynamic_shared,
             const unsigned char *params);

/* Prints text and where execution is, and aborts. */
[[noreturn]] __attribute__((format(printf, 1, 2)))
void ptx_fault(const char *text, ...);

/* Memory that kernels may reach: what malloc and cudaMalloc gave out. */
void ptx_memory_add(const void *p, size_t n);
void ptx_memory_drop(const void *p);

/* Counts of a kernel, to PTX_COUNTS (a file, appended to) at exit. */
void ptx_count_add(const std::string &kernel, const ptx_counts *c);

#endif
