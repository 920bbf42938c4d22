import sys, os; sys.path.insert(0, os.getcwd())
import adjoint, torch, timeit
torch.set_num_threads(2)
def mk(T):
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx,x,y):
            ctx.save_for_backward(x,y)
            return x*y
        @staticmethod
        def backward(ctx,g):
            x,y=ctx.saved_tensors
            return g*y,g*x
    x=T.full((8,8),1.001,requires_grad=True); y=T.full((8,8),.999,requires_grad=True)
    def f():
        h=x
        for _ in range(100): h=F.apply(h,y)
        h.sum().backward()
        x.grad=y.grad=None
    return f
a,b=mk(adjoint),mk(torch)
for _ in range(3):
    ta=min(timeit.repeat(a,number=10,repeat=5))/10*1e4; tb=min(timeit.repeat(b,number=10,repeat=5))/10*1e4
    print(ta,tb,ta/tb)
import cProfile
cProfile.run("for _ in range(50): a()",sort="tottime")
