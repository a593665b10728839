"""fit for Conan 2: `conan create core/cmake/packaging/conan`. Conan Center has no xtensor-blas: its headers come from the
system (on Debian: libxtensor-blas-dev)."""

import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy

TOP = pathlib.Path(__file__).resolve().parents[4]


class Fit(ConanFile):
    name = "fit"
    description = "Attention with gradients: a small, fast framework for C++"
    license = "MIT"
    topics = ("attention", "transformer", "autograd")
    settings = "os", "arch", "compiler", "build_type"
    package_type = "static-library"
    requires = ("nlohmann_json/[>=3.10 <4]", "openblas/[>=0.3 <1]", "xsimd/[>=8]", "xtensor/[>=0.24 <0.26]",
                "zlib/[>=1.2 <2]")

    def set_version(self):
        header = (TOP / "core/include/fit/base/version.hpp").read_text()
        self.version = re.search(r'FIT_VERSION_STRING "([^"]+)"', header).group(1)

    def export_sources(self):
        for name in ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "core/*", "nn/*",
                     "docs/*"):
            copy(self, name, TOP, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for option in ("FIT_TESTS", "FIT_EXAMPLES"):
            toolchain.cache_variables[option] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="fit")

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # fit's own package for CMake
        self.cpp_info.builddirs = ["lib/cmake/fit"]
        self.cpp_info.libs = ["fit_plot", "fit_hub", "fit_nn", "fit_core"]
        self.cpp_info.system_libs = ["pthread"]
