/* ceiling.c - carat ceiling: what this device does at most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ceiling.h"
#include "commands.h"
#include "measure.h"
#include "options.h"
#include "progress.h"
#include "report.h"

static void print_table(FILE *out, const struct place *place, const struct ceilings *ceilings)
{
    fprintf(out, "%s\n%-26s %12s %-8s %9s %8s\n", place->info.name, "ceiling", "value", "", "SM MHz", "W");
    for (int i = 0; i < ceilings->count; i++) {
        const struct ceiling *ceiling = &ceilings->items[i];
        fprintf(out, "%-26s ", ceiling_short_name(ceiling->name));
        if (ceiling->value > 0) {
            fprintf(out, "%12.2f %-8s", ceiling->value, ceiling->unit);
            if (ceiling->sm_clock_mhz > 0) {
                fprintf(out, " %9.0f %8.0f", ceiling->sm_clock_mhz, ceiling->power_w);
            }
        } else {
            fprintf(out, "%12s %s", "skipped:", ceiling->reason[0] ? ceiling->reason : "no kernel for it");
        }
        fputc('\n', out);
    }
}

int command_ceiling(int argc, char **argv)
{
    const char *json_path = NULL;
    double seconds = 0.6;
    int64_t megabytes = 0;
    const struct option options[] = {
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help = "write the figures as JSON too (-: to standard output, with the table on standard error)"},
        {.name = "--seconds",
         .kind = OPTION_AMOUNT,
         .target = &seconds,
         .value = "S",
         .help = "how long each loop keeps the device busy (0.6)"},
        {.name = "--megabytes",
         .kind = OPTION_COUNT,
         .target = &megabytes,
         .value = "N",
         .help = "the size of each buffer of the memory loops (1024)"},
    };
    const struct usage usage = {
        .synopsis = "carat ceiling [options]",
        .description =
            "Measures the limits of the CUDA device: multiply-adds of each unit, device memory,\n"
            "a launch, and the link to the host. All shares that Carat prints are shares of these.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes = "Without a CUDA device it says so, and succeeds.",
    };
    int exit_code;
    if (options_parse(&usage, argc, argv, NULL, 0, &exit_code) < 0) {
        return exit_code;
    }
    if (seconds <= 0) {
        return usage_error(argv[0], "--seconds is %g, but must be more than 0", seconds);
    }
    struct stage stage;
    carat_status status = stage_open(CARAT_DEVICE_CUDA, 0, &stage);
    if (status != CARAT_OK) {
        printf("skipped: no CUDA device (%s)\n", carat_last_message());
        return EXIT_OK;
    }
    struct ceilings ceilings;
    progress("measuring the device's limits");
    status = ceilings_measure(&stage.timer, seconds, (size_t)megabytes << 20, &ceilings);
    progress_end();
    exit_code = EXIT_OK;
    if (status != CARAT_OK) {
        exit_code = command_failed(argv[0], "%s", carat_last_message());
    } else {
        print_table(json_path && strcmp(json_path, "-") == 0 ? stderr : stdout, &stage.place, &ceilings);
        if (json_path) {
            json_t *document = report_head(&stage.place, NULL, 0, &ceilings);
            if (!report_document(json_path, document)) {
                exit_code = command_failed(argv[0], "cannot write %s", json_path);
            }
            json_decref(document);
        }
    }
    stage_close(&stage);
    return exit_code;
}
