# libsymm_jll, by BinaryBuilder. It repacks the archives of `./dev release`, since
# BinaryBuilder's own libc and CMake are older than symm asks for.
using BinaryBuilder

script = raw"""
archives=${WORKSPACE}/srcdir/dist
tar -C ${prefix} --strip-components=1 -xzf ${archives}/symm-*-linux-${target%%-*}.tar.gz
install_license ${prefix}/share/doc/symm/{LICENSE,THIRD-PARTY.md}
"""
sources = [DirectorySource(joinpath(@__DIR__, "..", "dist"); target="dist")]
platforms = [Platform("x86_64", "linux"; libc="glibc"), Platform("aarch64", "linux"; libc="glibc")]
products = [LibraryProduct("libsymm", :libsymm), ExecutableProduct("symm", :symm)]
dependencies = Dependency[]
build_tarballs(
    ARGS,
    "libsymm",
    v"0.2.0",
    sources,
    script,
    platforms,
    products,
    dependencies;
    julia_compat="1.6",
)
