# %% [markdown]
# # 2. Build a tiny engine
#
# This page builds automatic differentiation from nothing, in six steps. After each step something new runs. The result has
# about fifty lines. A [longer version](../tutorial.md#the-whole-engine-in-a-hundred-lines) adds broadcasting and higher derivatives.
#
# We need three ideas:
#
# 1. Every operation **records** how to send a gradient to its inputs.
# 2. The backward pass visits the records **in reverse order**.
# 3. Gradients that arrive at one place are **added**.

# %% [markdown]
# ## Step 1: a value with a record
#
# A `Var` holds a number. It also holds a list of pairs: an input, and the local derivative with respect to that input.


# %%
class Var:
    def __init__(self, value, parents=()):
        self.value = value
        self.parents = parents  # pairs: (input, local derivative)
        self.grad = 0.0

    def __repr__(self):
        return f"Var({self.value:.4g})"


x = Var(3.0)
x

# %% [markdown]
# ## Step 2: operations that record
#
# Addition has the local derivatives 1 and 1. Multiplication has `y` and `x`.


# %%
def add(x, y):
    return Var(x.value + y.value, [(x, 1.0), (y, 1.0)])


def mul(x, y):
    return Var(x.value * y.value, [(x, y.value), (y, x.value)])


Var.__add__ = add
Var.__mul__ = mul

x, y = Var(3.0), Var(4.0)
z = x * y + x
print(z, "from", z.parents)

# %% [markdown]
# Look at what happened: we ran ordinary Python, and the graph was built at the same time. This is called **define-by-run**. The
# graph is not declared anywhere. It is the trace of the program that ran.

# %% [markdown]
# ## Step 3: the reverse order
#
# A node may send its gradient on only after everything that uses it has added its part. So we need an order in which every
# node comes after its users: a *topological order*, reversed.


# %%
def topological(root):
    order, seen = [], set()

    def visit(node):
        if id(node) not in seen:
            seen.add(id(node))
            for parent, _ in node.parents:
                visit(parent)
            order.append(node)  # after all its inputs

    visit(root)
    return order


[node.value for node in reversed(topological(z))]

# %% [markdown]
# ## Step 4: the backward pass
#
# Start with 1 at the output. Visit the nodes in reverse order. At each node multiply by the local derivative and add the
# result to the input's gradient.


# %%
def backward(root):
    root.grad = 1.0
    for node in reversed(topological(root)):
        for parent, local in node.parents:
            parent.grad += node.grad * local


backward(z)
print(x.grad, y.grad)  # d(xy + x)/dx = y + 1, d/dy = x

# %% [markdown]
# That is a complete engine for scalars. Everything after this is more operations, arrays instead of numbers, and speed.

# %% [markdown]
# ## Step 5: more operations, and a branch
#
# New operations are two lines each. Loops and branches need nothing at all, because only what runs is recorded.

# %%
import math


def exp(x):
    value = math.exp(x.value)
    return Var(value, [(x, value)])  # the derivative of exp is exp: save the result


def tanh(x):
    value = math.tanh(x.value)
    return Var(value, [(x, 1.0 - value * value)])


def power_until(x, limit):
    y = x
    while y.value < limit:  # the data decides how long this runs
        y = y * x
    return y


x = Var(1.5)
y = power_until(x, 20.0)
backward(y)
n = round(math.log(y.value, 1.5))
print(f"x ** {n} = {y.value:.3f}, gradient {x.grad:.3f}, expected {n * 1.5 ** (n - 1):.3f}")

# %% [markdown]
# ## Step 6: deep graphs
#
# Our `visit` calls itself, so a long chain of operations exceeds Python's recursion limit. A stack of our own cures it.


# %%
def topological(root):
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent, _ in node.parents)
    return order


x = Var(0.0)
y = x
for _ in range(100_000):
    y = y + Var(1.0)
backward(y)
print(y, x.grad)

# %% [markdown]
# ## Train something with it
#
# One neuron, `tanh(w * x + b)`, learns to tell negative numbers from positive ones.

# %%
w, b = Var(0.1), Var(0.5)
data = [(-2.0, -1.0), (-1.0, -1.0), (1.0, 1.0), (2.0, 1.0)]
for epoch in range(60):
    loss = Var(0.0)
    for number, target in data:
        error = tanh(w * Var(number) + b) + Var(-target)
        loss = loss + error * error
    w.grad = b.grad = 0.0
    backward(loss)
    w.value -= 0.1 * w.grad
    b.value -= 0.1 * b.grad
print(f"loss {loss.value:.4f}, w {w.value:.3f}, b {b.value:.3f}")

# %% [markdown]
# ## How the real engine differs
#
# | here | in adjoint |
# |---|---|
# | local derivatives are numbers, computed at once | rules, run in the backward pass, only for inputs that need a gradient |
# | a sort before each pass | nodes carry the time they were made; the newest node with a gradient is always ready |
# | the record holds the inputs themselves | a node holds edges to other nodes and only the values that its rules name |
# | scalars | arrays of any shape and dtype; broadcasting is undone by summing |
# | first derivatives | rules are written with the same operations, so they can be recorded again |
#
# [Design](../design.md) follows `x * y` through the real files.
#
# ## Exercises
#
# 1. Add `sin` and check the derivative of `sin(x) * x` at 1.0 against a finite difference.
# 2. Add `Var.__neg__` and `Var.__sub__`.
# 3. Call `backward` twice without resetting. What happens to `x.grad`, and why is that useful when one batch does not fit into
#    memory?
#
# <details><summary>Solutions</summary>
#
# 1. and 2. are in the cell below.
#
# 3. The gradients add up (and in this toy the inner nodes' do, too, which a real engine avoids by holding them in the pass
# itself). With a real engine you run several small batches and call `backward()` for each: `.grad` is then the gradient of the sum.
#
# </details>


# %%
def sin(x):
    return Var(math.sin(x.value), [(x, math.cos(x.value))])


Var.__neg__ = lambda x: Var(-x.value, [(x, -1.0)])
Var.__sub__ = lambda x, y: x + (-y)

x = Var(1.0)
y = sin(x) * x
backward(y)
h = 1e-6
print(x.grad, ((1 + h) * math.sin(1 + h) - (1 - h) * math.sin(1 - h)) / (2 * h))
