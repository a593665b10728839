// Debuggers call fit_show(). CMakeLists.txt compiles this file with debug information, so they know its types. It
// includes no header, so the program grows by little.
namespace fit {
class Tensor;
namespace detail {
const char* text_of(const Tensor& x);
}
}  // namespace fit

#if defined(__has_attribute) && __has_attribute(retain)
#define FIT_KEEP gnu::used, gnu::retain  // the linker keeps it, too
#else
#define FIT_KEEP gnu::used
#endif

extern "C" [[FIT_KEEP, gnu::visibility("default")]] const char* fit_show(const fit::Tensor& x) {
  return fit::detail::text_of(x);
}

// gdb runs the scripts that it finds in this section: a byte 4, a name, the text.
#if defined(__ELF__)
asm(R"(
  .pushsection .debug_gdb_scripts, "MS", @progbits, 1
  .byte 4
  .ascii "fit_printers.py\n"
  .incbin ")" FIT_PRINTERS R"("
  .byte 0
  .popsection
)");
#endif
