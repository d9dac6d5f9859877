# libsymm_jll, by BinaryBuilder.
using BinaryBuilder

script = raw"""
cmake -S ${WORKSPACE}/srcdir/libsymm-* -B build -DCMAKE_TOOLCHAIN_FILE=${CMAKE_TARGET_TOOLCHAIN} -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX=${prefix} -DCMAKE_INSTALL_LIBDIR=lib -DSYMM_TESTS=OFF -DSYMM_BENCH=OFF -DSYMM_CUDA=off
cmake --build build --parallel ${nproc}
cmake --install build
install_license ${WORKSPACE}/srcdir/libsymm-*/{LICENSE,THIRD-PARTY.md}
"""
sources = [ArchiveSource("file://" * realpath(joinpath(@__DIR__, "..", "dist", "libsymm-0.2.0.tar.gz")), ENV["SYMM_SHA256"])]
platforms = [Platform("x86_64", "linux"; libc="glibc"), Platform("aarch64", "linux"; libc="glibc")]
products = [LibraryProduct("libsymm", :libsymm), ExecutableProduct("symm", :symm)]
build_tarballs(ARGS, "libsymm", v"0.2.0", sources, script, platforms, products, Dependency[]; julia_compat="1.6", preferred_gcc_version=v"12")
