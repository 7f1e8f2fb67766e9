/* manual.c - see manual.h */
#include "bench/manual.h"

#include <string.h>

#include "base/version.h"

/* ---- man ----------------------------------------------------------------- */

/* Text for roff: no line may begin with a dot or a quote, "-" is a minus. */
static void put_text(struct buf *b, const char *s)
{
    bool first = true;

    for (; *s != '\0'; s++) {
        if (first && (*s == '.' || *s == '\'')) buf_puts(b, "\\&");
        first = *s == '\n';
        if (strncmp(s, "\n\n", 2) == 0) {
            buf_puts(b, "\n.PP\n");
            s++;
        } else if (*s == '-') {
            buf_puts(b, "\\-");
        } else if (*s == '\\') {
            buf_puts(b, "\\e");
        } else {
            buf_putc(b, *s);
        }
    }
}

/* The manual page's form of an option, from the same table as the help. */
static void put_option(struct buf *b, const struct command_option *o)
{
    int i;

    buf_puts(b, ".TP\n");
    if (o->letter != 0) buf_printf(b, "\\fB\\-%c\\fR, ", o->letter);
    buf_puts(b, "\\fB\\-\\-");
    put_text(b, o->name);
    buf_puts(b, "\\fR");
    if (o->arg != NULL) {
        buf_puts(b, " \\fI");
        put_text(b, o->arg);
        buf_puts(b, "\\fR");
    }
    buf_putc(b, '\n');
    put_text(b, o->help);
    if (o->repeats) buf_puts(b, "; may be repeated");
    for (i = 0; o->values != NULL && o->values[i] != NULL; i++) {
        buf_puts(b, i ? ", " : "; one of ");
        put_text(b, o->values[i]);
    }
    buf_putc(b, '\n');
}

static void put_command(struct buf *b, const struct command *c)
{
    const struct command_option *o;
    int i;

    buf_printf(b, ".SS %s\n.B peakproof %s\n", c->name, c->name);
    put_text(b, c->synopsis);
    buf_puts(b, "\n.PP\n");
    put_text(b, c->text);
    buf_putc(b, '\n');
    for (o = c->option; o != NULL && o->name != NULL; o++) put_option(b, o);
    buf_puts(b, ".PP\nExamples:\n.PP\n.nf\n");
    for (i = 0; c->examples[i] != NULL; i++) {
        buf_puts(b, "    ");
        put_text(b, c->examples[i]);
        buf_putc(b, '\n');
    }
    buf_puts(b, ".fi\n");
}

void manual_page(const struct command *const *all, struct buf *out)
{
    const struct command_option *o;
    int i;

    buf_puts(out, ".TH PEAKPROOF 1 \"\" \"peakproof ");
    put_text(out, peakproof_release);
    buf_puts(out, "\"\n.SH NAME\npeakproof \\- prove a training\\-memory "
             "estimate against the peak of the step\n.SH SYNOPSIS\n"
             ".B peakproof\n.I COMMAND\n[options] [operands]\n"
             ".SH DESCRIPTION\n");
    put_text(out, "Lua scenarios describe a training step, a workload executes "
             "it and measures each rank's peak, estimators price the same "
             "step from its plan alone.\n");
    buf_puts(out, ".SH COMMANDS\nEvery command takes\n");
    for (o = command_common; o->name != NULL; o++) put_option(out, o);
    for (i = 0; all[i] != NULL; i++) put_command(out, all[i]);
    buf_puts(out, ".SH EXIT STATUS\n");
    for (i = 0; i < command_n_exits; i++)
        buf_printf(out, ".TP\n%d\n%s\n", command_exits[i].code,
                   command_exits[i].text);
    buf_puts(out, ".SH ENVIRONMENT\nSee\n.BR \"peakproof help "
             "environment\" .\n");
}

/* ---- bash ---------------------------------------------------------------- */

/* "--a --b": the options of a command, and those of all. */
static void put_names(struct buf *b, const struct command *c)
{
    const struct command_option *o;

    for (o = c->option; o != NULL && o->name != NULL; o++)
        buf_printf(b, "--%s ", o->name);
    for (o = command_common; o->name != NULL; o++)
        buf_printf(b, "--%s%s", o->name, o[1].name != NULL ? " " : "");
}

/* The words that may follow options with fixed values. */
static void put_values(struct buf *b, const struct command *c)
{
    const struct command_option *o;
    int i;

    for (o = c->option; o != NULL && o->name != NULL; o++) {
        if (o->values == NULL) continue;
        buf_printf(b, "    %s,--%s) words='", c->name, o->name);
        for (i = 0; o->values[i] != NULL; i++)
            buf_printf(b, "%s%s", i ? " " : "", o->values[i]);
        buf_puts(b, "' ;;\n");
    }
}

void manual_completion(const struct command *const *all,
                       const char *const *topic, struct buf *out)
{
    int i;

    buf_puts(out, "# bash completion for peakproof, made by \"peakproof help "
             "bash-completion\"\n_peakproof() {\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} words= fixed=\n"
             "    local prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}\n"
             "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='");
    for (i = 0; all[i] != NULL; i++)
        buf_printf(out, "%s%s", i ? " " : "", all[i]->name);
    buf_puts(out, " --help --version'\n"
             "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
             "        return\n    fi\n    case $cmd,$prev in\n");
    for (i = 0; all[i] != NULL; i++) put_values(out, all[i]);
    buf_puts(out, "    esac\n    fixed=$words\n"
             "    if [ -z \"$words\" ]; then case $cmd,$cur in\n");
    for (i = 0; all[i] != NULL; i++) {
        buf_printf(out, "    %s,-*) words='", all[i]->name);
        put_names(out, all[i]);
        buf_puts(out, "' ;;\n");
    }
    buf_puts(out, "    help,*) fixed=1 words='");
    for (i = 0; all[i] != NULL; i++)
        buf_printf(out, "%s ", all[i]->name);
    for (i = 0; topic[i] != NULL; i++)
        buf_printf(out, "%s%s", i ? " " : "", topic[i]);
    buf_puts(out, "' ;;\n    run,* | list,* | fit,*)\n"
             "        words=$(peakproof list 2>/dev/null | cut -d ' ' -f 1) "
             ";;\n    esac; fi\n"
             "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
             "    case $fixed$cur in\n    -*) ;;\n    \"$cur\")\n"
             "        COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n    esac\n"
             "}\ncomplete -o filenames -F _peakproof peakproof\n");
}
