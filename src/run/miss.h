/*
** miss.h - miss reports: a wave whose estimate was too far from its peak,
** with everything that the estimate was made of, so that it can be priced
** again anywhere, without the batch (no tokens are in it).
**
** {"format": 1,
**  "miss": {"device", "scenario", "case", "wave", "threshold_percent",
**           "estimators": [those with |peak - raw| / raw beyond it]},
**  "facts": what "peakproof price" reads,
**  "input_layouts": ["attention" | "gdn", by layer],
**  "estimates": [of every estimator, as "peakproof price" prints them],
**  "segments": [{"tokens", "parent"}], empty for a recorded layout,
**  "peak": {"rank", "allocated_bytes", "ranks": [{"allocated_bytes",
**           "requested_bytes", "reserved_bytes", "event", "phase", "layer",
**           "operator", "categories": {name: bytes}}]}, or null where the
**           wave ran out of memory,
**  "note": why it has no peak, or "",
**  "fingerprint": FNV-1a of all that, as compact JSON with sorted keys and
**           whole numbers without a point}
*/
#ifndef RUN_MISS_H
#define RUN_MISS_H

#include "base/json.h"
#include "run/work.h"

/* Adds to out a file for every wave that has a miss. */
int miss_add(const struct run_work *w, struct case_result *out,
             struct err *e) MUST_CHECK;

/* Is this JSON a miss report, not plain facts? */
bool miss_is(const struct js *top);
/* Prices its facts again and compares everything with what it says;
** ERR_INPUT names the first difference. *estimates is what price prints,
** the caller's. models_dir as price_facts_read. */
int miss_replay(const struct js *top, const char *models_dir,
                json_t **estimates, struct err *e) MUST_CHECK;

/* ---- parts that writing and replaying share ----------------------------- */

json_t *miss_layouts(const struct model *m);
/* Of the report without its fingerprint: 16 hexadecimal digits. */
int miss_fingerprint(const json_t *report, char out[20], struct err *e)
    MUST_CHECK;

#endif
