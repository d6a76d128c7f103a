# Object caches in C: the targets slabyard::slabyard and slabyard::static.
get_filename_component(_slabyard_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_slabyard_prefix "${_slabyard_lib}/@UP@" ABSOLUTE)
if(NOT TARGET slabyard::slabyard)
    add_library(slabyard::slabyard SHARED IMPORTED)
    set_target_properties(slabyard::slabyard PROPERTIES
        IMPORTED_LOCATION "${_slabyard_lib}/libslabyard.so.@VERSION@"
        IMPORTED_SONAME "libslabyard.so.0"
        INTERFACE_INCLUDE_DIRECTORIES "${_slabyard_prefix}/include")
    add_library(slabyard::static STATIC IMPORTED)
    set_target_properties(slabyard::static PROPERTIES
        IMPORTED_LOCATION "${_slabyard_lib}/libslabyard.a"
        INTERFACE_LINK_LIBRARIES pthread
        INTERFACE_INCLUDE_DIRECTORIES "${_slabyard_prefix}/include")
endif()
