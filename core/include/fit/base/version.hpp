#pragma once

/// The version of fit, as numbers and as text. CMake and packages read it here. Versions with equal FIT_VERSION_MAJOR
/// and FIT_VERSION_MINOR are compatible; before 1.0 other versions are not.
///
///     #if FIT_VERSION < 200  // before 0.2.0
#define FIT_VERSION_MAJOR 0
#define FIT_VERSION_MINOR 1
#define FIT_VERSION_PATCH 0
#define FIT_VERSION (FIT_VERSION_MAJOR * 10000 + FIT_VERSION_MINOR * 100 + FIT_VERSION_PATCH)
#define FIT_VERSION_STRING "0.1.0"
