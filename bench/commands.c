/* commands.c - the list of commands, in the order of the help */
#include "bench/command.h"

extern const struct command cmd_run, cmd_report, cmd_list, cmd_explain,
    cmd_price, cmd_plan, cmd_fit, cmd_replay, cmd_import, cmd_merge,
    cmd_compare, cmd_route, cmd_doctor, cmd_help, cmd_version;

const struct command *const commands[] = {
    &cmd_run, &cmd_report, &cmd_list, &cmd_explain, &cmd_price, &cmd_plan,
    &cmd_fit, &cmd_replay, &cmd_import, &cmd_merge, &cmd_compare,
    &cmd_route, &cmd_doctor, &cmd_help, &cmd_version, NULL
};
