/* status.c - the message of the last failure, one for each thread, and the names of things. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dtype.h"

static _Thread_local struct message last_message;

void set_message(const char *format, ...)
{
    /* Formatted aside first: an argument may be the message that this one replaces. */
    struct message message;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message.text, sizeof(message.text), format, arguments);
    va_end(arguments);
    last_message = message;
}

const char *carat_last_message(void) { return last_message.text; }

/* To the end of the text, and no further: every call does this, and hardly ever is there any. */
static void copy_text(struct message *to, const struct message *from)
{
    memcpy(to->text, from->text, strlen(from->text) + 1);
}

void message_keep(struct message *before) { copy_text(before, &last_message); }

carat_status message_settle(carat_status status, const struct message *before)
{
    if (status == CARAT_OK) {
        copy_text(&last_message, before);
    }
    return status;
}

const char *carat_status_name(carat_status status)
{
    switch (status) {
    case CARAT_OK:
        return "CARAT_OK";
    case CARAT_INVALID_ARGUMENT:
        return "CARAT_INVALID_ARGUMENT";
    case CARAT_UNSUPPORTED:
        return "CARAT_UNSUPPORTED";
    case CARAT_OUT_OF_HOST_MEMORY:
        return "CARAT_OUT_OF_HOST_MEMORY";
    case CARAT_OUT_OF_DEVICE_MEMORY:
        return "CARAT_OUT_OF_DEVICE_MEMORY";
    case CARAT_WORKSPACE_TOO_SMALL:
        return "CARAT_WORKSPACE_TOO_SMALL";
    case CARAT_NO_DRIVER:
        return "CARAT_NO_DRIVER";
    case CARAT_DRIVER_TOO_OLD:
        return "CARAT_DRIVER_TOO_OLD";
    case CARAT_NO_DEVICE:
        return "CARAT_NO_DEVICE";
    case CARAT_DEVICE_LOST:
        return "CARAT_DEVICE_LOST";
    case CARAT_DEVICE_ERROR:
        return "CARAT_DEVICE_ERROR";
    }
    return "unknown status";
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *carat_version(void)
{
    return TEXT(CARAT_VERSION_MAJOR) "." TEXT(CARAT_VERSION_MINOR) "." TEXT(CARAT_VERSION_PATCH);
}

size_t carat_type_size(carat_type type) { return type_bytes(type); }

const char *carat_type_name(carat_type type)
{
    switch (type) {
    case CARAT_F32:
        return "f32";
    case CARAT_F64:
        return "f64";
    case CARAT_F16:
        return "f16";
    case CARAT_BF16:
        return "bf16";
    case CARAT_S32:
        return "s32";
    case CARAT_S8:
        return "s8";
    case CARAT_E4M3:
        return "e4m3";
    case CARAT_E5M2:
        return "e5m2";
    }
    return "unknown type";
}

carat_type carat_scalar_type(carat_type type_cd)
{
    switch (type_cd) {
    case CARAT_F64:
        return CARAT_F64;
    case CARAT_S32:
        return CARAT_S32;
    default:
        return CARAT_F32;
    }
}
