/// # A course on attention
///
/// Eight pages, in this order. Each answers one question, and leads to the next one. Links that you have followed have
/// another colour, and each says how many of its questions you have answered.
///
/// 1. [Attention in five minutes](../demonstrate/five_minutes.html):
///    how does a model find the word that matters?
/// 2. [Attention at work](../demonstrate/demonstrate.html):
///    who may look at whom, and what does training change?
/// 3. [Understanding attention, one step at a time](../attention_step_by_step/attention_step_by_step.html):
///    what happens between the words and the weighted sum?
/// 4. [Coding attention on six tokens](../six_tokens/six_tokens.html):
///    can you compute every number yourself?
/// 5. [Attention as a function and as a module](../jax_notebook/jax_notebook.html):
///    where are the parameters, and what is a mask?
/// 6. [The mathematics of attention](../attention_mathematics/attention_mathematics.html):
///    how do positions and several heads enter, and does PyTorch agree?
/// 7. [A museum of attention](../attention_variants/attention_variants.html):
///    what can be changed, and what is it good for?
/// 8. [How a transformer learns to repeat](../induction/induction.html):
///    which heads of a trained model do the work?
///
/// `examples/run course` writes them all. `examples/run exercises` lists twenty exercises: you write the functions, and
/// the program checks them.
#include "support/example.hpp"

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "The home page of the lessons, in their order.", [](example::Example&) {});
}
