/* dtype.c - a type and an accuracy in one word. */
#include "dtype.h"

#include <stddef.h>
#include <string.h>

static const char *const words[] = {[CARAT_ACCURACY_STANDARD] = "-standard",
                                    [CARAT_ACCURACY_STRICT] = "-strict",
                                    [CARAT_ACCURACY_FAST] = "-fast",
                                    [CARAT_ACCURACY_BEST] = "-best",
                                    [CARAT_ACCURACY_CLOSE] = "-close"};
enum { ACCURACIES = sizeof(words) / sizeof(words[0]) };

const char *accuracy_ending(carat_accuracy accuracy)
{
    return accuracy == CARAT_ACCURACY_STANDARD ? "" : words[accuracy];
}

const char *accuracy_word(carat_accuracy accuracy) { return words[accuracy] + 1; }

/* The type whose name are the first `length` characters. */
static bool read_name(const char *word, size_t length, carat_type *type)
{
    for (int i = CARAT_F32; i <= CARAT_E5M2; i++) {
        const char *name = carat_type_name((carat_type)i);
        if (strlen(name) == length && strncmp(name, word, length) == 0) {
            *type = (carat_type)i;
            return true;
        }
    }
    return false;
}

bool type_read(const char *word, carat_type *type) { return read_name(word, strlen(word), type); }

bool dtype_read(const char *word, carat_type *type, carat_accuracy *accuracy)
{
    word = strcmp(word, "tf32") == 0 ? "f32-fast" : word;
    size_t length = strcspn(word, "-");
    for (int i = 0; i < ACCURACIES; i++) {
        if (strcmp(word + length, accuracy_ending((carat_accuracy)i)) == 0) {
            *accuracy = (carat_accuracy)i;
            return read_name(word, length, type);
        }
    }
    return false;
}
