# Warnings, sanitizers and fail points of our own code: link tarn_options to get them.
add_library(tarn_options INTERFACE)
target_compile_options(tarn_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
target_include_directories(tarn_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(tarn_options INTERFACE TARN_VERSION="${PROJECT_VERSION}")

if(TARN_FAIL_POINTS)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    message(FATAL_ERROR "TARN_FAIL_POINTS is for test builds; a release has none")
  endif()
  target_compile_definitions(tarn_options INTERFACE TARN_FAIL_POINTS_ENABLED)
endif()

if(TARN_SANITIZE)
  add_compile_options(-fsanitize=${TARN_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${TARN_SANITIZE})
endif()

find_program(TARN_LLD NAMES ld.lld-19)
if(TARN_LLD)
  add_link_options(-fuse-ld=lld-19)
endif()
