import sys, os; sys.path.insert(0, os.getcwd())
import adjoint, torch, timeit, gc, numpy as np
torch.set_num_threads(2)
def chain(T, x, w, b, c):
    h = x
    for _ in range(10):
        h = h * w
        h = h + b
        h = T.tanh(h)
        h = h - c
        h = -h
        h = T.exp(h)
        h = h / 1.5
        h = h * h
        h = T.tanh(h)
        h = h + x
    return h
rng=np.random.default_rng(0)
D=[rng.normal(size=(8,8)).astype('f4')*.5 for _ in range(4)]
def mk(T):
    A=[T.tensor(d,requires_grad=i<3) for i,d in enumerate(D)]
    def fb():
        for a in A[:3]: a.grad=None
        chain(T,*A).sum().backward()
    def nf():
        with T.no_grad(): chain(T,*A)
    return fb,nf
(fa,na),(ft,nt)=mk(adjoint),mk(torch)
def best(f): return min(timeit.repeat(f,setup="import gc;gc.enable()",number=50,repeat=5))/50*1e4
for _ in range(4):
    r=[best(f) for f in (fa,ft,na,nt)]
    print([round(v,3) for v in r], "fb",round(r[0]/r[1],3),"nograd",round(r[2]/r[3],3))
