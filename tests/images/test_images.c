/*
 * test_images.c - the compiled kernels as they lie in the library: every row of the catalogue has an image of its
 * own, with a kernel of the row's name and no other, for the row's architectures, that keeps nothing in local memory
 * and whose blocks fit a multiprocessor. Rows with PLAIN, and no others, have an image for plain products, of which the same is true,
 * which takes the same shared memory, and whose machine code is much shorter; so have rows with FINISH one for products with scales,
 * bias, an activation or a factor, which is not as short. Those with PLAIN=2 or FINISH=2 have no image for everything, and of these
 * rows with SUMS, and no others, one for parts of k.
 *
 * Fat binaries and the ELF files in them are taken apart here, without a tool of the CUDA toolkit. A fat binary is
 * a header of 16 bytes, then entries: each a header that says kind, architecture and size, and its bytes, which may
 * be compressed by zstd.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <elf.h>

#include "../../kernels/common/arguments.h"
#include "catalog.h"
#include "rows.h"

#define FAT_MAGIC 0xba55ed50u
#define ENTRY_ARCH_SPECIFIC 0x100000u /* of entry_header.flags: compiled for 90a, say, and not for 90 */
#define ENTRY_LZ4 0x2000u             /* how its bytes are compressed */
#define ENTRY_ZSTD 0x8000u
enum { ENTRY_PTX = 1, ENTRY_ELF = 2 };
/* Of .nv.info: attributes of 8 bytes, whose second half is the number. */
enum { FORMAT_SIZED = 4, ATTRIBUTE_FRAME_SIZE = 0x11, ATTRIBUTE_REGISTERS = 0x2f };
#define REGISTERS 65536 /* of a multiprocessor, from Turing to Hopper */
#define REGISTERS_UNIT 8

/* The architectures that machine code is made for, where a row's own is not above them. */
static const int targets[] = {IMAGE_TARGETS};
enum { TARGET_COUNT = sizeof(targets) / sizeof(targets[0]) };

struct fat_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t bytes; /* of all entries */
};

struct entry_header {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t bytes;        /* in the image, with what fills up the last 8 */
    uint32_t packed_bytes; /* where they are compressed */
    uint32_t unused[2];
    uint32_t arch; /* major * 10 + minor */
    uint64_t unused_too;
    uint64_t flags;
    uint64_t unused_as_well;
    uint64_t unpacked_bytes;
};

/* An ELF file's bytes at an offset, where that many are there. */
struct span {
    const unsigned char *bytes;
    size_t size;
};

/* What the machine code of an image for less than all that a row can do has at most, of the length of the whole one's. */
struct share {
    uint64_t numerator;
    uint64_t denominator;
};
static const struct share plain_share = {1, 2};
static const struct share finishing_share = {2, 3};

/* One of a row's images; of no bytes where there is none. */
struct image {
    const struct kernel *row;
    const char *kind; /* for messages: behind the row's name */
    struct span file;
};

/* What is in it, of all architectures; 0 of what could not be read. */
struct content {
    uint64_t code_bytes;
    uint64_t static_shared;
    uint64_t global; /* memory of the image's own */
};

static struct image image_between(const struct kernel *row, const char *kind, const unsigned char *begin,
                                  const unsigned char *end)
{
    return (struct image){row, kind, {begin, begin ? (size_t)(end - begin) : 0}};
}

static struct image whole_image(const struct kernel *row)
{
    return image_between(row, "", row->image, row->image_end);
}

static struct image plain_image(const struct kernel *row)
{
    return image_between(row, ", plain,", row->plain_image, row->plain_image_end);
}

static struct image finishing_image(const struct kernel *row)
{
    return image_between(row, ", finishing,", row->finish_image, row->finish_image_end);
}

static struct image sums_image(const struct kernel *row)
{
    return image_between(row, ", sums,", row->sums_image, row->sums_image_end);
}

/*
 * zstd's own function for a whole frame. Its library is on every Debian and Ubuntu, whose dpkg needs it; its header is
 * not. NULL: not here.
 */
typedef size_t zstd_decompress(void *to, size_t room, const void *from, size_t bytes);
static zstd_decompress *decompress;
static int unread; /* entries of machine code, for want of it */

static void find_zstd(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "ZSTD_decompress") : NULL;
    /* POSIX promises that a function's address fits a void *; ISO C has no conversion for it. */
    memcpy(&decompress, &address, sizeof(address));
}

static const void *at(struct span span, uint64_t offset, uint64_t size)
{
    assert_true(offset <= span.size && size <= span.size - offset);
    return span.bytes + offset;
}

static Elf64_Shdr section(struct span elf, const Elf64_Ehdr *header, int index)
{
    Elf64_Shdr result;
    memcpy(&result, at(elf, header->e_shoff + (uint64_t)index * header->e_shentsize, sizeof(result)),
           sizeof(result));
    return result;
}

/* The largest number of an attribute in an ELF file's .nv.info. */
static uint32_t largest(struct span info, int wanted)
{
    uint32_t result = 0;
    for (uint64_t offset = 0; offset + 4 <= info.size;) {
        const unsigned char *attribute = at(info, offset, 4);
        uint64_t size = attribute[0] == FORMAT_SIZED ? attribute[2] + 256u * attribute[3] : 0;
        if (attribute[0] == FORMAT_SIZED && attribute[1] == wanted && size >= 8) {
            uint32_t number;
            memcpy(&number, at(info, offset + 8, 4), 4);
            result = number > result ? number : result;
        }
        offset += 4 + size;
    }
    return result;
}

/* Bytes of shared memory that a block may have at most. */
static uint64_t most_shared(uint32_t arch) { return arch < 80 ? 65536 : arch < 90 ? 166912 : 232448; }

/* Blocks that a multiprocessor has room for, as the row says; on 7.5 not more than its places for 1,024 threads. */
static uint32_t promised_blocks(const struct kernel *row, uint32_t arch, uint32_t threads)
{
    uint32_t blocks = row->min_blocks > 0 ? (uint32_t)row->min_blocks : 1;
    uint32_t most = threads < 1024 ? 1024 / threads : 1;
    return arch < 80 && blocks > most ? most : blocks;
}

/* What the driver would otherwise find out at a launch: nothing spilled, and room for as many blocks as promised. */
static void check_resources(const struct image *image, uint32_t arch, struct span info,
                            uint64_t static_shared)
{
    const struct kernel *row = image->row;
    uint32_t frame = largest(info, ATTRIBUTE_FRAME_SIZE);
    uint32_t registers = largest(info, ATTRIBUTE_REGISTERS);
    uint32_t threads = (uint32_t)(row->threads_x * (row->threads_y ? row->threads_y : 1));
    uint32_t blocks = promised_blocks(row, arch, threads);
    uint64_t shared = static_shared + (uint64_t)row->shared_bytes;
    if (frame != 0) {
        fail_msg("%s%s keeps %u bytes a thread in local memory on sm_%u", row->name, image->kind, frame,
                 arch);
    }
    assert_true(registers > 0);
    registers = (registers + REGISTERS_UNIT - 1) / REGISTERS_UNIT * REGISTERS_UNIT;
    if (registers * threads * blocks > REGISTERS) {
        fail_msg("%s%s wants %u registers for each of %u threads of %u blocks on sm_%u", row->name,
                 image->kind, registers, threads, blocks, arch);
    }
    if (shared > most_shared(arch)) {
        fail_msg("%s%s wants %lu bytes of shared memory on sm_%u", row->name, image->kind,
                 (unsigned long)shared, arch);
    }
}

/* Machine code with one kernel, the row's. */
static struct content check_elf(const struct image *image, uint32_t arch, struct span elf)
{
    Elf64_Ehdr header;
    int kernels = 0;
    struct content found = {0};
    struct span info = {NULL, 0};
    memcpy(&header, at(elf, 0, sizeof(header)), sizeof(header));
    assert_memory_equal(header.e_ident, ELFMAG, SELFMAG);
    Elf64_Shdr names = section(elf, &header, header.e_shstrndx);
    for (int i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr shdr = section(elf, &header, i);
        const char *name = at(elf, names.sh_offset + shdr.sh_name, 1);
        if (strncmp(name, ".text.", 6) == 0) {
            assert_string_equal(name + 6, image->row->name);
            assert_true(shdr.sh_size > 0);
            found.code_bytes += shdr.sh_size;
            kernels++;
        } else if (strcmp(name, ".nv.info") == 0) {
            info = (struct span){at(elf, shdr.sh_offset, shdr.sh_size), shdr.sh_size};
        } else if (strncmp(name, ".nv.shared.", 11) == 0 && strcmp(name + 11, image->row->name) == 0) {
            /* As long as its alignment, it is what goes before the dynamic array, which the driver does not count. */
            found.static_shared = shdr.sh_size == shdr.sh_addralign ? 0 : shdr.sh_size;
        } else if (strcmp(name, ".nv.global") == 0) {
            assert_int_equal(shdr.sh_addralign, 16); /* its words are read by two */
            found.global = shdr.sh_size;
        }
    }
    assert_int_equal(kernels, 1);
    assert_non_null(info.bytes);
    /* Kernels whose clusters keep pace, and no others, have a word for each: host and kernel mean the same ones. */
    assert_int_equal(found.global, kernel_keeps_pace(image->row) ? PACE_CLUSTERS * sizeof(uint64_t) : 0);
    check_resources(image, arch, info, found.static_shared);
    return found;
}

/* The machine code of an entry, compressed or not. */
static struct content check_code(const struct image *image, const struct entry_header *entry,
                                 struct span content)
{
    if ((entry->flags & (ENTRY_LZ4 | ENTRY_ZSTD)) == 0) {
        return check_elf(image, entry->arch, content);
    }
    if (!(entry->flags & ENTRY_ZSTD)) {
        fail_msg("%s%s is compressed, and not by zstd", image->row->name, image->kind);
    }
    if (!decompress) {
        unread++;
        return (struct content){0};
    }
    const void *packed = at(content, 0, entry->packed_bytes);
    unsigned char *bytes = malloc((size_t)entry->unpacked_bytes);
    assert_non_null(bytes);
    assert_int_equal(decompress(bytes, (size_t)entry->unpacked_bytes, packed, entry->packed_bytes),
                     entry->unpacked_bytes);
    struct content found = check_elf(image, entry->arch, (struct span){bytes, (size_t)entry->unpacked_bytes});
    free(bytes);
    return found;
}

/* An image's entries are exactly those that the row asks for. */
static struct content check_image(struct image image)
{
    const struct kernel *row = image.row;
    struct fat_header fat;
    struct content sum = {0};
    bool found[TARGET_COUNT] = {false};
    int ptx = 0;
    int specific = 0;
    memcpy(&fat, at(image.file, 0, sizeof(fat)), sizeof(fat));
    assert_int_equal(fat.magic, FAT_MAGIC);
    assert_true(fat.header_bytes + fat.bytes <= image.file.size);
    for (uint64_t offset = fat.header_bytes; offset < fat.header_bytes + fat.bytes;) {
        struct entry_header entry;
        memcpy(&entry, at(image.file, offset, sizeof(entry)), sizeof(entry));
        struct span content = {at(image.file, offset + entry.header_bytes, entry.bytes), (size_t)entry.bytes};
        bool is_specific = (entry.flags & ENTRY_ARCH_SPECIFIC) != 0;
        assert_int_equal(is_specific, row->arch_specific);
        if (entry.kind == ENTRY_ELF) {
            struct content code = check_code(&image, &entry, content);
            sum.code_bytes += code.code_bytes;
            sum.static_shared += code.static_shared;
            specific += is_specific && (int)entry.arch == row->arch;
            for (int i = 0; i < TARGET_COUNT; i++) {
                found[i] = found[i] || (!is_specific && targets[i] == (int)entry.arch);
            }
        } else {
            assert_int_equal(entry.kind, ENTRY_PTX);
            assert_int_equal(entry.arch, row->arch);
            ptx++;
        }
        offset += entry.header_bytes + entry.bytes;
    }
    assert_int_equal(specific, row->arch_specific);
    assert_int_equal(ptx, row->arch_specific ? 0 : 1);
    for (int i = 0; i < TARGET_COUNT; i++) {
        if (found[i] != (!row->arch_specific && targets[i] >= row->arch)) {
            fail_msg("%s%s: machine code for sm_%d %s", row->name, image.kind, targets[i],
                     found[i] ? "is there" : "is missing");
        }
    }
    return sum;
}

/* An image for less than all that the row can do, where it is there, beside the whole one. */
static void check_lesser_image(struct image image, const struct content *whole, struct share most)
{
    if (image.file.size == 0) {
        return;
    }
    struct content lesser = check_image(image);
    if (lesser.code_bytes == 0 || whole->code_bytes == 0) {
        return; /* not read, and counted as that */
    }
    print_message("%s%s %lu bytes of machine code, and %lu of the whole\n", image.row->name, image.kind,
                  (unsigned long)lesser.code_bytes, (unsigned long)whole->code_bytes);
    assert_int_equal(lesser.static_shared, whole->static_shared);
    if (lesser.code_bytes * most.denominator > whole->code_bytes * most.numerator) {
        fail_msg("%s%s has %lu bytes of machine code, more than %lu/%lu of %lu", image.row->name, image.kind,
                 (unsigned long)lesser.code_bytes, (unsigned long)most.numerator,
                 (unsigned long)most.denominator, (unsigned long)whole->code_bytes);
    }
}

static int count_images(void)
{
    int count = 0;
    for (int i = 0; i < carat_catalog_count; i++) {
        count += kernel_has_image(&carat_catalog[i]);
    }
    return count;
}

static int count_plain_images(void)
{
    int count = 0;
    for (int i = 0; i < carat_catalog_count; i++) {
        count += carat_catalog[i].plain_image != NULL;
    }
    return count;
}

static int count_finishing_images(void)
{
    int count = 0;
    for (int i = 0; i < carat_catalog_count; i++) {
        count += carat_catalog[i].finish_image != NULL;
    }
    return count;
}

static int count_sums_images(void)
{
    int count = 0;
    for (int i = 0; i < carat_catalog_count; i++) {
        count += carat_catalog[i].sums_image != NULL;
    }
    return count;
}

/* Skips the test where the build has no kernels. */
static void need_images(void)
{
    if (count_images() == 0) {
        print_message("skipped: this build has no nvcc, so none of %d rows has an image\n",
                      carat_catalog_count);
        skip();
    }
}

/* An image is there exactly where it should be. */
static void expect_image(struct image image, bool wanted)
{
    if ((image.file.size > 0) != wanted) {
        fail_msg("%s%s with PLAIN=%d, FINISH=%d and SUMS=%d: an image is %s", image.row->name, image.kind,
                 image.row->plain, image.row->finish, image.row->sums, wanted ? "missing" : "there");
    }
}

/* All images of a row that is compiled. */
static void check_row(const struct kernel *row)
{
    if (kernel_lacks_whole(row)) {
        if (row->plain > 0) {
            check_image(plain_image(row));
        }
        if (row->finish > 0) {
            check_image(finishing_image(row));
        }
        if (row->sums > 0) {
            check_image(sums_image(row));
        }
        return;
    }
    struct content whole = check_image(whole_image(row));
    check_lesser_image(plain_image(row), &whole, plain_share);
    check_lesser_image(finishing_image(row), &whole, finishing_share);
}

static void every_row_has_its_kernel(void **state)
{
    (void)state;
    need_images();
    find_zstd();
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        bool compiled = kernel_has_image(row);
        expect_image(whole_image(row), !kernel_lacks_whole(row) && compiled);
        expect_image(plain_image(row), row->plain > 0 && compiled);
        expect_image(finishing_image(row), row->finish > 0 && compiled);
        expect_image(sums_image(row), row->sums > 0 && compiled);
        if (compiled) {
            print_message("%s\n", row->name); /* the last one named is the one that failed */
            check_row(row);
        } else if (IMAGES_OF_ALL) {
            fail_msg("%s has no image", row->name);
        } else {
            print_message("skipped: %s, which this nvcc is too old for\n", row->name);
        }
    }
    if (unread > 0) {
        print_message(
            "skipped: %d files of machine code, which are compressed, for there is no libzstd.so.1\n",
            unread);
    }
}

/* Two images have no byte in common. */
static void apart(struct image x, struct image y)
{
    if (x.file.size > 0 && y.file.size > 0 && x.file.bytes < y.file.bytes + y.file.size &&
        y.file.bytes < x.file.bytes + x.file.size) {
        fail_msg("%s%s and %s%s have one image", x.row->name, x.kind, y.row->name, y.kind);
    }
}

/* No image of a row has a byte in common with one of another row, or of its own. */
static void images_apart(const struct kernel *x, const struct kernel *y)
{
    enum { IMAGES = 4 };
    const struct image of_x[IMAGES] = {whole_image(x), plain_image(x), finishing_image(x), sums_image(x)};
    const struct image of_y[IMAGES] = {whole_image(y), plain_image(y), finishing_image(y), sums_image(y)};
    for (int i = 0; i < IMAGES; i++) {
        for (int j = 0; j < IMAGES; j++) {
            if (x != y || i != j) {
                apart(of_x[i], of_y[j]);
            }
        }
    }
}

static void rows_share_neither_name_nor_image(void **state)
{
    (void)state;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *x = &carat_catalog[i];
        images_apart(x, x);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(x->name, carat_catalog[j].name);
            images_apart(x, &carat_catalog[j]);
        }
    }
}

static void library_is_small(void **state)
{
    (void)state;
    struct stat status;
    assert_int_equal(stat(SHARED_LIBRARY, &status), 0);
    print_message("the shared library has %.1f MB, images of %d rows in it: %d of them have one for plain "
                  "products, %d one that finishes sums, %d one for parts of k\n",
                  (double)status.st_size / 1e6, count_images(), count_plain_images(),
                  count_finishing_images(), count_sums_images());
    assert_true(status.st_size > 0);
    assert_true(status.st_size < LIBRARY_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_its_kernel),
        cmocka_unit_test(rows_share_neither_name_nor_image),
        cmocka_unit_test(library_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
