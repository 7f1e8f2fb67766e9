/*
** flow.h - what build.cpp needs of a function as a whole.
*/
#ifndef PTX_FLOW_H
#define PTX_FLOW_H

#include "ptx.h"

struct ptx_flow {
    /* By statement: where lanes that part there meet again, a statement or
    ** the number of all. */
    std::vector<u32> meet;
    /* By register: its room among those of its width. Registers that live at
    ** different times share one. */
    std::vector<u32> room;
    size_t rooms4, rooms8, preds;
};

ptx_flow ptx_flow_of(const ptx_function &f);

#endif
