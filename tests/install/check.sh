#!/usr/bin/env bash
# check.sh WHAT - one test of the installed tree; CMakeLists.txt beside it sets the variables.
set -euo pipefail
: "${CC:?}" "${CMAKE:?}" "${PREFIX:?}" "${LIBDIR:?}" "${BUILD:?}" "${WORK:?}"
here=$(dirname "$(readlink -f "$0")")
source_root=$(readlink -f "$here/../..")
export PKG_CONFIG_PATH=$PREFIX/$LIBDIR/pkgconfig

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Installs, and moves the whole tree away: nothing in it may know where it was installed to.
install_tree() {
    rm -rf "$WORK/first" "$PREFIX"
    "$CMAKE" --install "$BUILD" --prefix "$WORK/first"
    mkdir -p "$(dirname "$PREFIX")"
    mv "$WORK/first" "$PREFIX"

    local file
    for file in include/carat/carat.h "$LIBDIR/libcarat.so" "$LIBDIR/libcarat.a" "$LIBDIR/pkgconfig/carat.pc" \
        "$LIBDIR/cmake/carat/caratConfig.cmake" "$LIBDIR/cmake/carat/caratConfigVersion.cmake"; do
        [[ -f $PREFIX/$file ]] || fail "$file is not installed"
    done
    if [[ -f $BUILD/cli/carat ]]; then
        [[ -f $PREFIX/share/man/man1/carat.1 ]] || fail "the manual page is not installed"
        "$PREFIX/bin/carat" --version
    fi
    if grep -rIl -e "$WORK/first" -e "$source_root" "$PREFIX"; then
        fail "the files above name the place they were built in or installed to"
    fi

    # The libraries show the names of the header, all of them and no other.
    local declared shown
    declared=$(grep -oE '\bcarat_[a-z0-9_]+\(' "$PREFIX/include/carat/carat.h" | tr -d '(' | sort -u)
    shown=$(nm -D --defined-only "$PREFIX/$LIBDIR/libcarat.so" | awk '{print $3}' | sort -u)
    if comm -3 <(echo "$declared") <(echo "$shown") | grep .; then
        fail "the names above are declared but not in libcarat.so (left), or there but not declared (right)"
    fi
}

# compile_and_run SOURCE PROGRAM [LINK OPTION...]: an outside program, found by pkg-config's options alone.
compile_and_run() {
    local source=$1 program=$2
    shift 2
    local flags
    read -ra flags <<<"$(pkg-config --cflags carat)"
    "$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror "${flags[@]}" "$source" -o "$program" "$@"
    LD_LIBRARY_PATH=$PREFIX/$LIBDIR "$program"
}

outside_shared() {
    local libraries
    read -ra libraries <<<"$(pkg-config --libs carat)"
    compile_and_run "$here/outside.c" "$WORK/outside_shared" "${libraries[@]}"
    readelf -d "$WORK/outside_shared" | grep -q 'NEEDED.*libcarat\.so' || fail "not linked with libcarat.so"
}

# Carat from its archive, and the rest of the --static list as this system has it.
outside_static() {
    local libraries
    read -ra libraries <<<"$(pkg-config --static --libs carat)"
    compile_and_run "$here/outside.c" "$WORK/outside_static" "${libraries[@]/#-lcarat/-l:libcarat.a}"
    if readelf -d "$WORK/outside_static" | grep 'NEEDED.*libcarat\.so'; then
        fail "linked with libcarat.so"
    fi
}

outside_package() {
    local program
    rm -rf "$WORK/package"
    "$CMAKE" -G Ninja -S "$here/package" -B "$WORK/package" -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_C_COMPILER="$CC"
    "$CMAKE" --build "$WORK/package"
    for program in outside_shared outside_static; do
        "$WORK/package/$program"
    done
}

# Every program in the README and the guide must compile and run. Those that need the CUDA runtime are left
# out, and counted, where its header or library is not there.
page_examples() {
    local page folder example libraries count=0 left_out=0
    read -ra libraries <<<"$(pkg-config --libs carat)"
    rm -rf "$WORK/examples"
    for page in README.md docs/guide.md; do
        folder=$WORK/examples/${page//\//_}
        mkdir -p "$folder"
        awk -v folder="$folder" '
            /^```c$/ { file = sprintf("%s/%02d.c", folder, ++count); next }
            /^```c cuda$/ { file = sprintf("%s/%02d_cuda.c", folder, ++count); next }
            /^```python$/ { file = sprintf("%s/%02d.py", folder, ++count); next }
            /^```/ { file = "" }
            file { print > file }' "$source_root/$page"
        for example in "$folder"/*; do
            [[ -f $example ]] || fail "$page holds no program"
            printf '== %s, %s\n' "$page" "$(basename "$example")"
            case $example in
            *.py) LD_LIBRARY_PATH=$PREFIX/$LIBDIR /usr/bin/python3 "$example" ;;
            *_cuda.c)
                if ! echo '#include <cuda_runtime_api.h>' | "$CC" ${CUDA:+"-I$CUDA/include" "-L$CUDA/lib64"} -xc - -shared \
                    -o "${example%.c}" -lcudart 2>/dev/null; then
                    echo "left out: the CUDA runtime's header or library is not here"
                    left_out=$((left_out + 1))
                    continue
                fi
                compile_and_run "$example" "${example%.c}" "${libraries[@]}" \
                    ${CUDA:+"-I$CUDA/include" "-L$CUDA/lib64" "-Wl,-rpath,$CUDA/lib64"} -lcudart
                ;;
            *) compile_and_run "$example" "${example%.c}" "${libraries[@]}" ;;
            esac
            count=$((count + 1))
        done
    done
    printf '%d examples compiled and run, %d left out\n' "$count" "$left_out"
}

# Configuring and building again must compile, link and write nothing.
second_build() {
    local output
    "$CMAKE" "$BUILD" >/dev/null
    output=$("$CMAKE" --build "$BUILD" 2>&1) || fail "it does not build: $output"
    printf '%s\n' "$output"
    if grep -v -e '^ninja: no work to do\.$' -e 'Re-checking globbed directories' <<<"$output"; then
        fail "the second build did the above"
    fi
}

case ${1:-} in
tree) install_tree ;;
shared) outside_shared ;;
static) outside_static ;;
package) outside_package ;;
examples) page_examples ;;
second_build) second_build ;;
*) fail "no such test: '${1:-}'" ;;
esac
