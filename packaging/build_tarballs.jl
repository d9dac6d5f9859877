# libsymm_jll, by BinaryBuilder: what `./dev release` compiled, since BinaryBuilder's
# own libc and CMake are older than symm asks for.
using BinaryBuilder

script = raw"""
tar -C ${prefix} --strip-components=1 -xzf ${WORKSPACE}/srcdir/dist/symm-*-linux-${target%%-*}.tar.gz
install_license ${prefix}/share/doc/symm/{LICENSE,THIRD-PARTY.md}
"""
sources = [DirectorySource(joinpath(@__DIR__, "..", "dist"); target="dist")]
platforms = [Platform("x86_64", "linux"; libc="glibc"), Platform("aarch64", "linux"; libc="glibc")]
products = [LibraryProduct("libsymm", :libsymm), ExecutableProduct("symm", :symm)]
build_tarballs(ARGS, "libsymm", v"0.2.0", sources, script, platforms, products, Dependency[]; julia_compat="1.6")
