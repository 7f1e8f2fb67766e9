/*
** checkpoint.h - a folder of safetensors files: model.safetensors.index.json
** and its shards, or every *.safetensors file of the folder.
**
** A file is 8 bytes of little-endian header length, a JSON header of
** {"name": {"dtype", "shape", "data_offsets"}} and the data; offsets count
** from the end of the header. Checked at once: a header that does not fit,
** offsets outside the file or over each other, a shape that does not match
** its bytes, a name in two files, a file that is none. Tensors of types and
** shapes that are not read here may lie beside the others.
*/
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include <stdint.h>

#include "base/err.h"

#define CHECKPOINT_DIMS 4

/* Integers are read where they are asked for; CKPT_OTHER, other types and
** too many dimensions, is counted and never read. */
enum checkpoint_type { CKPT_BF16, CKPT_F16, CKPT_F32, CKPT_F64,
                       CKPT_I32, CKPT_I64, CKPT_OTHER };

struct checkpoint_tensor {
    char *name;             /* owned by the checkpoint */
    int64_t file;           /* which shard */
    enum checkpoint_type type;
    int64_t dim[CHECKPOINT_DIMS];   /* unused dims are 1 */
    int64_t n_dim;
    int64_t count;          /* product of dims */
    int64_t at, bytes;      /* where in the file, and how many */
};

struct checkpoint;

/* ERR_INPUT names folder, file and tensor. Close with checkpoint_close. */
int checkpoint_open(const char *folder, struct checkpoint **out,
                    struct err *e) MUST_CHECK;
/* The same of a single file. */
int checkpoint_open_file(const char *path, struct checkpoint **out,
                         struct err *e) MUST_CHECK;
void checkpoint_close(struct checkpoint *c);
int64_t checkpoint_count(const struct checkpoint *c);
/* The i-th of them in order of name, and the one of a name or NULL; for
** those who look around. Borrowed. */
const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *c,
                                              int64_t i);
const struct checkpoint_tensor *checkpoint_get(const struct checkpoint *c,
                                               const char *name);
/* The folder; and the file a tensor is in, for messages. Borrowed. */
const char *checkpoint_folder(const struct checkpoint *c);
const char *checkpoint_path(const struct checkpoint *c,
                            const struct checkpoint_tensor *t);

/* The tensor of that name and shape (n_dim dims), or ERR_INPUT: missing, of
** a type that is not read, or misshaped with both shapes. Borrowed. */
int checkpoint_find(const struct checkpoint *c, const char *name,
                    const int64_t *dim, int64_t n_dim,
                    const struct checkpoint_tensor **out, struct err *e)
    MUST_CHECK;

/* The same, and of integers too. */
int checkpoint_find_any(const struct checkpoint *c, const char *name,
                        const int64_t *dim, int64_t n_dim,
                        const struct checkpoint_tensor **out, struct err *e)
    MUST_CHECK;

/* Elements [first, first + n) as numbers (bf16, f16, f32 and i32 are exact in
** a double). Thread-safe. */
int checkpoint_read(const struct checkpoint *c,
                    const struct checkpoint_tensor *t, int64_t first,
                    int64_t n, double *out, struct err *e) MUST_CHECK;

#endif
