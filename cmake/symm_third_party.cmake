# Headers of others with which symm is compiled; its users need none of them. They come from
# third_party/ in a source package (packaging/third_party puts them there), else from this
# machine, else they are fetched, each at one commit. THIRD-PARTY.md lists them.
include(FetchContent)

# symm_third_party(target header repository commit folder): `folder` is the one of the
# repository that has the headers.
function(
  symm_third_party
  target
  header
  repository
  commit
  folder
)
  if(TARGET ${target})
    return()
  endif()
  get_filename_component(name ${repository} NAME)
  string(TOUPPER SYMM_${name}_INCLUDE include)
  find_path(${include} ${header} HINTS ${PROJECT_SOURCE_DIR}/third_party)
  mark_as_advanced(${include})
  if(NOT ${include})
    message(
      STATUS
      "symm: fetching ${header} over the network, for two minutes at most "
      "(-D${include}=<folder> names a folder that has it)"
    )
    # A folder that is not there keeps CMake from building what it fetched.
    FetchContent_Declare(
      symm_${name}
      URL https://github.com/${repository}/archive/${commit}.tar.gz
      TIMEOUT 120
      SOURCE_SUBDIR headers-only
      DOWNLOAD_EXTRACT_TIMESTAMP OFF
    )
    FetchContent_MakeAvailable(symm_${name})
    string(TOLOWER symm_${name} fetched)
    set(${include} ${${fetched}_SOURCE_DIR}/${folder})
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${${include}})
endfunction()

symm_third_party(
  symm_highway
  hwy/highway.h
  google/highway
  2607d3b5b0113992fe84d3848859eae13b3b52c1
  ""
)
if(SYMM_TOOL OR SYMM_BENCH)
  symm_third_party(
    CLI11::CLI11
    CLI/CLI.hpp
    CLIUtils/CLI11
    70f8072f9dd2292fd0b9f9e5f58e279f60483ed3
    include
  )
  symm_third_party(
    nlohmann_json::nlohmann_json
    nlohmann/json.hpp
    nlohmann/json
    bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d
    include
  )
endif()
