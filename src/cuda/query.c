/* query.c - what is known of a CUDA device: what the driver tells, and a table for the rest. */
#include "device_cuda.h"

#include <stdio.h>

#include "status.h"

/*
 * What the driver does not tell, by compute capability (CUDA C++ Programming Guide, "Compute
 * Capabilities", and the occupancy calculator). A row holds from its capability up to the next row's.
 */
static const struct architecture {
    int capability;
    int register_allocation_unit;
    int warp_allocation_granularity;
    int max_registers_per_thread;
} architectures[] = {
    {50, 256, 4, 255}, /* Maxwell */
    {60, 256, 2, 255}, /* Pascal, of the data centre */
    {61, 256, 4, 255}, /* Pascal, and unchanged from Volta (70) to Blackwell (120) */
};

static const struct architecture *architecture_of(int capability)
{
    const struct architecture *found = &architectures[0];
    for (size_t i = 1; i < sizeof(architectures) / sizeof(architectures[0]); ++i) {
        if (architectures[i].capability <= capability) {
            found = &architectures[i];
        }
    }
    return found;
}

static carat_status read_attributes(struct cuda_device *device, carat_device_info *info)
{
    int grid[3], block_shared, optin_shared, multiprocessor_shared, reserved_shared, l2, l2_persisting;
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->compute_capability_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->compute_capability_minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &info->warp_size},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info->max_threads_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &info->max_threads_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &info->max_blocks_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &info->max_block_dim[0]},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &info->max_block_dim[1]},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &info->max_block_dim[2]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &grid[0]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &grid[1]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &grid[2]},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &info->registers_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &info->registers_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &block_shared},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &optin_shared},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &multiprocessor_shared},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &reserved_shared},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
        {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, &l2_persisting},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &info->memory_bus_bits},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &info->memory_clock_khz},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &info->core_clock_khz},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, &info->copy_engines},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); ++i) {
        CARAT_TRY(DRIVER(device, cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device->handle)));
    }
    for (int i = 0; i < 3; ++i) {
        info->max_grid_dim[i] = grid[i];
    }
    info->shared_bytes_per_block = block_shared;
    info->shared_bytes_per_block_optin = optin_shared;
    info->shared_bytes_per_multiprocessor = multiprocessor_shared;
    info->shared_bytes_reserved = reserved_shared;
    info->l2_bytes = l2;
    info->l2_persisting_bytes = l2_persisting;
    return CARAT_OK;
}

static carat_status read_memory(struct cuda_device *device, carat_device_info *info)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    CARAT_TRY(DRIVER(device, cuMemGetInfo_v2(&free_bytes, &total_bytes)));
    CARAT_TRY(DRIVER(device, cuDeviceTotalMem_v2(&total_bytes, device->handle)));
    info->memory_bytes = (int64_t)total_bytes;
    info->memory_free_bytes = (int64_t)free_bytes;
    return CARAT_OK;
}

carat_status cuda_query(struct device *base, carat_device_info *info)
{
    struct cuda_device *device = cuda_device_of(base);
    const struct architecture *architecture = architecture_of(base->traits.compute_capability);
    carat_device_info found = {
        .kind = CARAT_DEVICE_CUDA,
        .index = device->index,
        .driver_version = driver.version,
        .max_registers_per_thread = architecture->max_registers_per_thread,
        .register_allocation_unit = architecture->register_allocation_unit,
        .warp_allocation_granularity = architecture->warp_allocation_granularity,
    };
    snprintf(found.name, sizeof(found.name), "%s", device->name);

    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = read_attributes(device, &found);
    if (status == CARAT_OK) {
        status = read_memory(device, &found);
    }
    device_leave(device, pushed);
    if (status == CARAT_OK) {
        found.max_warps_per_multiprocessor = found.max_threads_per_multiprocessor / found.warp_size;
        *info = found;
    }
    return status;
}
