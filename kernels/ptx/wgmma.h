/*
 * wgmma.h - the tensor instruction of a warpgroup (four warps): sum (64 x WGMMA_N) += A (64 x k) * B (k x WGMMA_N),
 * k being 32 bytes of elements (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate"; sm_90a).
 *
 * It runs on its own while the warps go on: they put a fence before the first instruction that uses registers they
 * wrote, commit what they started as a group, and wait for the group before they read the sums.
 *
 * The row that includes this file sets
 *
 *     WGMMA_N            columns of B: 8, or a multiple of 16, or from 96 on of 8 where they are floats, up to 256
 *     WGMMA_TYPE_A, _B   their elements: ELEMENT_...; f32 are multiplied as tf32 (the 13 lowest bits are not
 *                        looked at); 8-bit floats may be mixed
 *     WGMMA_A_ACROSS     1: A lies in shared memory along its rows, not along k; 16-bit types alone
 *     WGMMA_B_ACROSS     1: B lies along its columns, not along k; the same
 *
 * A thread holds of the sums, with warp = thread / 32 in its warpgroup, group = lane / 4 and member = lane % 4,
 *
 *     sum[4 * j + 2 * r + c]    row = 16 * warp + group + 8 * r,  column = 8 * j + 2 * member + c
 */
#ifndef CARAT_PTX_WGMMA_H
#define CARAT_PTX_WGMMA_H

#if WGMMA_TYPE_A == ELEMENT_S8
typedef int32_t wgmma_sum;
#define WGMMA_SUM(x) "+r"(x)
#else
typedef float wgmma_sum;
#define WGMMA_SUM(x) "+f"(x)
#endif

#define WGMMA_SUMS (WGMMA_N / 2)

/* The operands and their numbers in the text, for each WGMMA_N. */
#define WGMMA_4(i) WGMMA_SUM(sum[i]), WGMMA_SUM(sum[i + 1]), WGMMA_SUM(sum[i + 2]), WGMMA_SUM(sum[i + 3])
#define WGMMA_8(i) WGMMA_4(i), WGMMA_4(i + 4)

#define WGMMA_TEXT_8 "%0, %1, %2, %3"
#define WGMMA_OPERANDS_8 WGMMA_4(0)
#define WGMMA_TEXT_16 WGMMA_TEXT_8 ", %4, %5, %6, %7"
#define WGMMA_OPERANDS_16 WGMMA_8(0)
#define WGMMA_TEXT_32 WGMMA_TEXT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_OPERANDS_32 WGMMA_OPERANDS_16, WGMMA_8(8)
#define WGMMA_TEXT_48 WGMMA_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_OPERANDS_48 WGMMA_OPERANDS_32, WGMMA_8(16)
#define WGMMA_TEXT_64 WGMMA_TEXT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_OPERANDS_64 WGMMA_OPERANDS_48, WGMMA_8(24)
#define WGMMA_TEXT_80 WGMMA_TEXT_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_OPERANDS_80 WGMMA_OPERANDS_64, WGMMA_8(32)
#define WGMMA_TEXT_96 WGMMA_TEXT_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_OPERANDS_96 WGMMA_OPERANDS_80, WGMMA_8(40)
#define WGMMA_TEXT_104 WGMMA_TEXT_96 ", %48, %49, %50, %51"
#define WGMMA_OPERANDS_104 WGMMA_OPERANDS_96, WGMMA_4(48)
#define WGMMA_TEXT_112 WGMMA_TEXT_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_OPERANDS_112 WGMMA_OPERANDS_96, WGMMA_8(48)
#define WGMMA_TEXT_120 WGMMA_TEXT_112 ", %56, %57, %58, %59"
#define WGMMA_OPERANDS_120 WGMMA_OPERANDS_112, WGMMA_4(56)
#define WGMMA_TEXT_128 WGMMA_TEXT_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_OPERANDS_128 WGMMA_OPERANDS_112, WGMMA_8(56)
#define WGMMA_TEXT_136 WGMMA_TEXT_128 ", %64, %65, %66, %67"
#define WGMMA_OPERANDS_136 WGMMA_OPERANDS_128, WGMMA_4(64)
#define WGMMA_TEXT_144 WGMMA_TEXT_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_OPERANDS_144 WGMMA_OPERANDS_128, WGMMA_8(64)
#define WGMMA_TEXT_152 WGMMA_TEXT_144 ", %72, %73, %74, %75"
#define WGMMA_OPERANDS_152 WGMMA_OPERANDS_144, WGMMA_4(72)
#define WGMMA_TEXT_160 WGMMA_TEXT_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_OPERANDS_160 WGMMA_OPERANDS_144, WGMMA_8(72)
#define WGMMA_TEXT_168 WGMMA_TEXT_160 ", %80, %81, %82, %83"
#define WGMMA_OPERANDS_168 WGMMA_OPERANDS_160, WGMMA_4(80)
#define WGMMA_TEXT_176 WGMMA_TEXT_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_OPERANDS_176 WGMMA_OPERANDS_160, WGMMA_8(80)
#define WGMMA_TEXT_184 WGMMA_TEXT_176 ", %88, %89, %90, %91"
#define WGMMA_OPERANDS_184 WGMMA_OPERANDS_176, WGMMA_4(88)
#define WGMMA_TEXT_192 WGMMA_TEXT_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_OPERANDS_192 WGMMA_OPERANDS_176, WGMMA_8(88)
#define WGMMA_TEXT_200 WGMMA_TEXT_192 ", %96, %97, %98, %99"
#define WGMMA_OPERANDS_200 WGMMA_OPERANDS_192, WGMMA_4(96)
#define WGMMA_TEXT_208 WGMMA_TEXT_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_OPERANDS_208 WGMMA_OPERANDS_192, WGMMA_8(96)
#define WGMMA_TEXT_216 WGMMA_TEXT_208 ", %104, %105, %106, %107"
#define WGMMA_OPERANDS_216 WGMMA_OPERANDS_208, WGMMA_4(104)
#define WGMMA_TEXT_224 WGMMA_TEXT_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_OPERANDS_224 WGMMA_OPERANDS_208, WGMMA_8(104)
#define WGMMA_TEXT_232 WGMMA_TEXT_224 ", %112, %113, %114, %115"
#define WGMMA_OPERANDS_232 WGMMA_OPERANDS_224, WGMMA_4(112)
#define WGMMA_TEXT_240 WGMMA_TEXT_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_OPERANDS_240 WGMMA_OPERANDS_224, WGMMA_8(112)
#define WGMMA_TEXT_248 WGMMA_TEXT_240 ", %120, %121, %122, %123"
#define WGMMA_OPERANDS_248 WGMMA_OPERANDS_240, WGMMA_4(120)
#define WGMMA_TEXT_256 WGMMA_TEXT_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_OPERANDS_256 WGMMA_OPERANDS_240, WGMMA_8(120)

#if WGMMA_N == 8
#define WGMMA_SHAPE "m64n8"
#define WGMMA_TEXT WGMMA_TEXT_8
#define WGMMA_OPERANDS WGMMA_OPERANDS_8
#define WGMMA_AFTER_0 "%4"
#define WGMMA_AFTER_1 "%5"
#define WGMMA_AFTER_2 "%6"
#define WGMMA_AFTER_3 "%7"
#define WGMMA_AFTER_4 "%8"
#define WGMMA_AFTER_5 "%9"
#elif WGMMA_N == 16
#define WGMMA_SHAPE "m64n16"
#define WGMMA_TEXT WGMMA_TEXT_16
#define WGMMA_OPERANDS WGMMA_OPERANDS_16
#define WGMMA_AFTER_0 "%8"
#define WGMMA_AFTER_1 "%9"
#define WGMMA_AFTER_2 "%10"
#define WGMMA_AFTER_3 "%11"
#define WGMMA_AFTER_4 "%12"
#define WGMMA_AFTER_5 "%13"
#elif WGMMA_N == 32
#define WGMMA_SHAPE "m64n32"
#define WGMMA_TEXT WGMMA_TEXT_32
#define WGMMA_OPERANDS WGMMA_OPERANDS_32
#define WGMMA_AFTER_0 "%16"
#define WGMMA_AFTER_1 "%17"
#define WGMMA_AFTER_2 "%18"
#define WGMMA_AFTER_3 "%19"
#define WGMMA_AFTER_4 "%20"
#define WGMMA_AFTER_5 "%21"
#elif WGMMA_N == 48
#define WGMMA_SHAPE "m64n48"
#define WGMMA_TEXT WGMMA_TEXT_48
#define WGMMA_OPERANDS WGMMA_OPERANDS_48
#define WGMMA_AFTER_0 "%24"
#define WGMMA_AFTER_1 "%25"
#define WGMMA_AFTER_2 "%26"
#define WGMMA_AFTER_3 "%27"
#define WGMMA_AFTER_4 "%28"
#define WGMMA_AFTER_5 "%29"
#elif WGMMA_N == 64
#define WGMMA_SHAPE "m64n64"
#define WGMMA_TEXT WGMMA_TEXT_64
#define WGMMA_OPERANDS WGMMA_OPERANDS_64
#define WGMMA_AFTER_0 "%32"
#define WGMMA_AFTER_1 "%33"
#define WGMMA_AFTER_2 "%34"
#define WGMMA_AFTER_3 "%35"
#define WGMMA_AFTER_4 "%36"
#define WGMMA_AFTER_5 "%37"
#elif WGMMA_N == 80
#define WGMMA_SHAPE "m64n80"
#define WGMMA_TEXT WGMMA_TEXT_80
#define WGMMA_OPERANDS WGMMA_OPERANDS_80
#define WGMMA_AFTER_0 "%40"
#define WGMMA_AFTER_1 "%41"
#define WGMMA_AFTER_2 "%42"
#define WGMMA_AFTER_3 "%43"
#define WGMMA_AFTER_4 "%44"
#define WGMMA_AFTER_5 "%45"
#elif WGMMA_N == 96
#define WGMMA_SHAPE "m64n96"
#define WGMMA_TEXT WGMMA_TEXT_96
#define WGMMA_OPERANDS WGMMA_OPERANDS_96
#define WGMMA_AFTER_0 "%48"
#define WGMMA_AFTER_1 "%49"
#define WGMMA_AFTER_2 "%50"
#define WGMMA_AFTER_3 "%51"
#define WGMMA_AFTER_4 "%52"
#define WGMMA_AFTER_5 "%53"
#elif WGMMA_N == 104
#define WGMMA_SHAPE "m64n104"
#define WGMMA_TEXT WGMMA_TEXT_104
#define WGMMA_OPERANDS WGMMA_OPERANDS_104
#define WGMMA_AFTER_0 "%52"
#define WGMMA_AFTER_1 "%53"
#define WGMMA_AFTER_2 "%54"
#define WGMMA_AFTER_3 "%55"
#define WGMMA_AFTER_4 "%56"
#define WGMMA_AFTER_5 "%57"
#elif WGMMA_N == 112
#define WGMMA_SHAPE "m64n112"
#define WGMMA_TEXT WGMMA_TEXT_112
#define WGMMA_OPERANDS WGMMA_OPERANDS_112
#define WGMMA_AFTER_0 "%56"
#define WGMMA_AFTER_1 "%57"
#define WGMMA_AFTER_2 "%58"
#define WGMMA_AFTER_3 "%59"
#define WGMMA_AFTER_4 "%60"
#define WGMMA_AFTER_5 "%61"
#elif WGMMA_N == 120
#define WGMMA_SHAPE "m64n120"
#define WGMMA_TEXT WGMMA_TEXT_120
#define WGMMA_OPERANDS WGMMA_OPERANDS_120
#define WGMMA_AFTER_0 "%60"
#define WGMMA_AFTER_1 "%61"
#define WGMMA_AFTER_2 "%62"
#define WGMMA_AFTER_3 "%63"
#define WGMMA_AFTER_4 "%64"
#define WGMMA_AFTER_5 "%65"
#elif WGMMA_N == 128
#define WGMMA_SHAPE "m64n128"
#define WGMMA_TEXT WGMMA_TEXT_128
#define WGMMA_OPERANDS WGMMA_OPERANDS_128
#define WGMMA_AFTER_0 "%64"
#define WGMMA_AFTER_1 "%65"
#define WGMMA_AFTER_2 "%66"
#define WGMMA_AFTER_3 "%67"
#define WGMMA_AFTER_4 "%68"
#define WGMMA_AFTER_5 "%69"
#elif WGMMA_N == 136
#define WGMMA_SHAPE "m64n136"
#define WGMMA_TEXT WGMMA_TEXT_136
#define WGMMA_OPERANDS WGMMA_OPERANDS_136
#define WGMMA_AFTER_0 "%68"
#define WGMMA_AFTER_1 "%69"
#define WGMMA_AFTER_2 "%70"
#define WGMMA_AFTER_3 "%71"
#define WGMMA_AFTER_4 "%72"
#define WGMMA_AFTER_5 "%73"
#elif WGMMA_N == 144
#define WGMMA_SHAPE "m64n144"
#define WGMMA_TEXT WGMMA_TEXT_144
#define WGMMA_OPERANDS WGMMA_OPERANDS_144
#define WGMMA_AFTER_0 "%72"
#define WGMMA_AFTER_1 "%73"
#define WGMMA_AFTER_2 "%74"
#define WGMMA_AFTER_3 "%75"
#define WGMMA_AFTER_4 "%76"
#define WGMMA_AFTER_5 "%77"
#elif WGMMA_N == 152
#define WGMMA_SHAPE "m64n152"
#define WGMMA_TEXT WGMMA_TEXT_152
#define WGMMA_OPERANDS WGMMA_OPERANDS_152
#define WGMMA_AFTER_0 "%76"
#define WGMMA_AFTER_1 "%77"
#define WGMMA_AFTER_2 "%78"
#define WGMMA_AFTER_3 "%79"
#define WGMMA_AFTER_4 "%80"
#define WGMMA_AFTER_5 "%81"
#elif WGMMA_N == 160
#define WGMMA_SHAPE "m64n160"
#define WGMMA_TEXT WGMMA_TEXT_160
#define WGMMA_OPERANDS WGMMA_OPERANDS_160
#define WGMMA_AFTER_0 "%80"
#define WGMMA_AFTER_1 "%81"
#define WGMMA_AFTER_2 "%82"
#define WGMMA_AFTER_3 "%83"
#define WGMMA_AFTER_4 "%84"
#define WGMMA_AFTER_5 "%85"
#elif WGMMA_N == 168
#define WGMMA_SHAPE "m64n168"
#define WGMMA_TEXT WGMMA_TEXT_168
#define WGMMA_OPERANDS WGMMA_OPERANDS_168
#define WGMMA_AFTER_0 "%84"
#define WGMMA_AFTER_1 "%85"
#define WGMMA_AFTER_2 "%86"
#define WGMMA_AFTER_3 "%87"
#define WGMMA_AFTER_4 "%88"
#define WGMMA_AFTER_5 "%89"
#elif WGMMA_N == 176
#define WGMMA_SHAPE "m64n176"
#define WGMMA_TEXT WGMMA_TEXT_176
#define WGMMA_OPERANDS WGMMA_OPERANDS_176
#define WGMMA_AFTER_0 "%88"
#define WGMMA_AFTER_1 "%89"
#define WGMMA_AFTER_2 "%90"
#define WGMMA_AFTER_3 "%91"
#define WGMMA_AFTER_4 "%92"
#define WGMMA_AFTER_5 "%93"
#elif WGMMA_N == 184
#define WGMMA_SHAPE "m64n184"
#define WGMMA_TEXT WGMMA_TEXT_184
#define WGMMA_OPERANDS WGMMA_OPERANDS_184
#define WGMMA_AFTER_0 "%92"
#define WGMMA_AFTER_1 "%93"
#define WGMMA_AFTER_2 "%94"
#define WGMMA_AFTER_3 "%95"
#define WGMMA_AFTER_4 "%96"
#define WGMMA_AFTER_5 "%97"
#elif WGMMA_N == 192
#define WGMMA_SHAPE "m64n192"
#define WGMMA_TEXT WGMMA_TEXT_192
#define WGMMA_OPERANDS WGMMA_OPERANDS_192
#define WGMMA_AFTER_0 "%96"
#define WGMMA_AFTER_1 "%97"
#define WGMMA_AFTER_2 "%98"
#define WGMMA_AFTER_3 "%99"
#define WGMMA_AFTER_4 "%100"
#define WGMMA_AFTER_5 "%101"
#elif WGMMA_N == 200
#define WGMMA_SHAPE "m64n200"
#define WGMMA_TEXT WGMMA_TEXT_200
#define WGMMA_OPERANDS WGMMA_OPERANDS_200
#define WGMMA_AFTER_0 "%100"
#define WGMMA_AFTER_1 "%101"
#define WGMMA_AFTER_2 "%102"
#define WGMMA_AFTER_3 "%103"
#define WGMMA_AFTER_4 "%104"
#define WGMMA_AFTER_5 "%105"
#elif WGMMA_N == 208
#define WGMMA_SHAPE "m64n208"
#define WGMMA_TEXT WGMMA_TEXT_208
#define WGMMA_OPERANDS WGMMA_OPERANDS_208
#define WGMMA_AFTER_0 "%104"
#define WGMMA_AFTER_1 "%105"
#define WGMMA_AFTER_2 "%106"
#define WGMMA_AFTER_3 "%107"
#define WGMMA_AFTER_4 "%108"
#define WGMMA_AFTER_5 "%109"
#elif WGMMA_N == 216
#define WGMMA_SHAPE "m64n216"
#define WGMMA_TEXT WGMMA_TEXT_216
#define WGMMA_OPERANDS WGMMA_OPERANDS_216
#define WGMMA_AFTER_0 "%108"
#define WGMMA_AFTER_1 "%109"
#define WGMMA_AFTER_2 "%110"
#define WGMMA_AFTER_3 "%111"
#define WGMMA_AFTER_4 "%112"
#define WGMMA_AFTER_5 "%113"
#elif WGMMA_N == 224
#define WGMMA_SHAPE "m64n224"
#define WGMMA_TEXT WGMMA_TEXT_224
#define WGMMA_OPERANDS WGMMA_OPERANDS_224
#define WGMMA_AFTER_0 "%112"
#define WGMMA_AFTER_1 "%113"
#define WGMMA_AFTER_2 "%114"
#define WGMMA_AFTER_3 "%115"
#define WGMMA_AFTER_4 "%116"
#define WGMMA_AFTER_5 "%117"
#elif WGMMA_N == 232
#define WGMMA_SHAPE "m64n232"
#define WGMMA_TEXT WGMMA_TEXT_232
#define WGMMA_OPERANDS WGMMA_OPERANDS_232
#define WGMMA_AFTER_0 "%116"
#define WGMMA_AFTER_1 "%117"
#define WGMMA_AFTER_2 "%118"
#define WGMMA_AFTER_3 "%119"
#define WGMMA_AFTER_4 "%120"
#define WGMMA_AFTER_5 "%121"
#elif WGMMA_N == 240
#define WGMMA_SHAPE "m64n240"
#define WGMMA_TEXT WGMMA_TEXT_240
#define WGMMA_OPERANDS WGMMA_OPERANDS_240
#define WGMMA_AFTER_0 "%120"
#define WGMMA_AFTER_1 "%121"
#define WGMMA_AFTER_2 "%122"
#define WGMMA_AFTER_3 "%123"
#define WGMMA_AFTER_4 "%124"
#define WGMMA_AFTER_5 "%125"
#elif WGMMA_N == 248
#define WGMMA_SHAPE "m64n248"
#define WGMMA_TEXT WGMMA_TEXT_248
#define WGMMA_OPERANDS WGMMA_OPERANDS_248
#define WGMMA_AFTER_0 "%124"
#define WGMMA_AFTER_1 "%125"
#define WGMMA_AFTER_2 "%126"
#define WGMMA_AFTER_3 "%127"
#define WGMMA_AFTER_4 "%128"
#define WGMMA_AFTER_5 "%129"
#elif WGMMA_N == 256
#define WGMMA_SHAPE "m64n256"
#define WGMMA_TEXT WGMMA_TEXT_256
#define WGMMA_OPERANDS WGMMA_OPERANDS_256
#define WGMMA_AFTER_0 "%128"
#define WGMMA_AFTER_1 "%129"
#define WGMMA_AFTER_2 "%130"
#define WGMMA_AFTER_3 "%131"
#define WGMMA_AFTER_4 "%132"
#define WGMMA_AFTER_5 "%133"
#else
#error "WGMMA_N is neither 8 nor a multiple of 16, or from 96 on of 8, up to 256"
#endif

#if WGMMA_TYPE_A == ELEMENT_F16
#define WGMMA_KIND "k16.f32.f16.f16"
#elif WGMMA_TYPE_A == ELEMENT_BF16
#define WGMMA_KIND "k16.f32.bf16.bf16"
#elif WGMMA_TYPE_A == ELEMENT_F32
#define WGMMA_KIND "k8.f32.tf32.tf32"
#elif WGMMA_TYPE_A == ELEMENT_S8
#define WGMMA_KIND "k32.s32.s8.s8"
#elif WGMMA_TYPE_A == ELEMENT_E4M3 && WGMMA_TYPE_B == ELEMENT_E4M3
#define WGMMA_KIND "k32.f32.e4m3.e4m3"
#elif WGMMA_TYPE_A == ELEMENT_E4M3 && WGMMA_TYPE_B == ELEMENT_E5M2
#define WGMMA_KIND "k32.f32.e4m3.e5m2"
#elif WGMMA_TYPE_A == ELEMENT_E5M2 && WGMMA_TYPE_B == ELEMENT_E4M3
#define WGMMA_KIND "k32.f32.e5m2.e4m3"
#elif WGMMA_TYPE_A == ELEMENT_E5M2 && WGMMA_TYPE_B == ELEMENT_E5M2
#define WGMMA_KIND "k32.f32.e5m2.e5m2"
#else
#error "wgmma does not multiply these types"
#endif

/* What follows the operands: factors 1 of A and B; for 16-bit types also how A and B lie. */
#if WGMMA_TYPE_A == ELEMENT_S8
#define WGMMA_REST "p;\n}"
#define WGMMA_REST_A_REGISTERS "p;\n}"
#elif WGMMA_TYPE_A == ELEMENT_F16 || WGMMA_TYPE_A == ELEMENT_BF16
#define WGMMA_REST "p, 1, 1, " WGMMA_DIGIT(WGMMA_A_ACROSS) ", " WGMMA_DIGIT(WGMMA_B_ACROSS) ";\n}"
#define WGMMA_REST_A_REGISTERS "p, 1, 1, " WGMMA_DIGIT(WGMMA_B_ACROSS) ";\n}"
#define WGMMA_DIGIT(x) WGMMA_DIGIT_OF(x)
#define WGMMA_DIGIT_OF(x) #x
#else
#define WGMMA_REST "p, 1, 1;\n}"
#define WGMMA_REST_A_REGISTERS "p, 1, 1;\n}"
#endif

/*
 * Where an operand lies in shared memory, in tiles of 128-byte rows under the 128-byte swizzle: eight rows are an
 * atom of 1024 bytes, which begins at a multiple of 1024, and the 16-byte pieces of row r stand in the order piece ^ r.
 *
 *     along k     a row is 128 bytes of k of one row of A (column of B). `stride` is from eight rows to the
 *                 next eight; `leading` says nothing. The next k are 32 bytes further.
 *     across      a row is 64 elements of one k. `stride` is from eight k to the next eight, `leading` from 64
 *                 elements to the next 64. The next k are 16 rows, 2048 bytes, further.
 */
static __device__ inline uint64_t wgmma_descriptor(const void *shared, uint32_t leading, uint32_t stride)
{
    /* An address has 18 bits; what stands above them is the block's number in its cluster. */
    return (uint64_t)((shared_address(shared) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/*
 * The same along k in rows of 64 bytes under the 64-byte swizzle: eight rows are an atom of 512 bytes, and the pieces of
 * row r stand in the order piece ^ (r / 2 % 4).
 */
static __device__ inline uint64_t wgmma_descriptor_64(const void *shared, uint32_t stride)
{
    return (uint64_t)((shared_address(shared) & 0x3ffff) >> 4) | (uint64_t)(stride >> 4) << 32 |
           (uint64_t)2 << 62;
}

/* Either with another low half, which says where the operand lies; the high half says how. */
static __device__ inline uint64_t wgmma_with_low(uint64_t descriptor, uint32_t low)
{
    return (descriptor & 0xffffffff00000000u) | low;
}

/* The descriptor of what lies so many bytes further, or number times so many. Nothing is carried into the high half. */
static __device__ inline uint64_t wgmma_advance(uint64_t descriptor, uint32_t bytes)
{
    return wgmma_with_low(descriptor, (uint32_t)descriptor + (bytes >> 4));
}
static __device__ inline uint64_t wgmma_advance_by(uint64_t descriptor, uint32_t number, uint32_t bytes)
{
    return wgmma_with_low(descriptor, (uint32_t)descriptor + number * (bytes >> 4));
}

/* sum += A * B, or sum = A * B where accumulate is 0. */
static __device__ inline void wgmma(wgmma_sum sum[WGMMA_SUMS], uint64_t a, uint64_t b, int accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, " WGMMA_AFTER_2 ", 0;\n"
                 "wgmma.mma_async.sync.aligned." WGMMA_SHAPE WGMMA_KIND " {" WGMMA_TEXT "}, " WGMMA_AFTER_0
                 ", " WGMMA_AFTER_1 ", " WGMMA_REST:WGMMA_OPERANDS
                 : "l"(a), "l"(b), "r"(accumulate));
}

/*
 * The same with A in registers: a thread holds of 32 bytes of k, in words of four bytes,
 *
 *     a[2 * s + r]    row = 16 * warp + group + 8 * r,  word member + 4 * s of the 8 along k
 */
static __device__ inline void wgmma_a_registers(wgmma_sum sum[WGMMA_SUMS], const uint32_t a[4], uint64_t b,
                                                int accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, " WGMMA_AFTER_5 ", 0;\n"
                 "wgmma.mma_async.sync.aligned." WGMMA_SHAPE WGMMA_KIND " {" WGMMA_TEXT "}, {" WGMMA_AFTER_0
                 ", " WGMMA_AFTER_1 ", " WGMMA_AFTER_2 ", " WGMMA_AFTER_3 "}, " WGMMA_AFTER_4 ", "
                 WGMMA_REST_A_REGISTERS:WGMMA_OPERANDS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

/* Before the first instruction that uses registers the warps have written. */
static __device__ inline void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/* Ends a group of instructions. */
static __device__ inline void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `pending` of the latest groups are under way; a constant. */
#define wgmma_wait(pending) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory")

/* Keeps the compiler from moving uses of the sums across this point: it knows nothing of what runs on its own. */
static __device__ inline void wgmma_hold(wgmma_sum sum[WGMMA_SUMS])
{
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        asm volatile("" : WGMMA_SUM(sum[i])::"memory");
    }
}

#endif
