import sys,os; sys.path.insert(0,os.getcwd())
import adjoint as T, cupy as cp, time
print([m for m in cp.ndarray.view.__doc__.splitlines()][:3])
x=T.full((8,8),.5,device='cuda',requires_grad=True); y=T.full((8,8),.7,device='cuda',requires_grad=True)
print(type(x.array), type((x*y).array), type((x@y).array), type(x.sum().array), type(x.reshape(64).array), type((x.array*2)), type(x.array[0]))
def t(f,n=2100):
    for _ in range(100): f()
    cp.cuda.get_current_stream().synchronize(); best=1e9
    for _ in range(7):
        s=time.perf_counter()
        for _ in range(n//7): f()
        cp.cuda.get_current_stream().synchronize(); best=min(best,(time.perf_counter()-s)/(n//7))
    return round(best*1e6,2)
X,Y=x.array,y.array
print("X*Y",t(lambda:X*Y),"x*y",t(lambda:x*y),"x*2.",t(lambda:x*2.),"tanh",t(lambda:x.tanh()),"-X",t(lambda:-X), "X*2.", t(lambda:X*2.))
B=T.full((1<<26,),.5,device='cuda').array
import torch
b=torch.full((1<<26,),.5,device='cuda')
cpb=cp.full((1<<26,),.5,cp.float32)
print("64M mul ours",t(lambda:B*B,70),"cupy",t(lambda:cpb*cpb,70))
def tt(f,n=70):
    f(); torch.cuda.synchronize(); best=1e9
    for _ in range(7):
        s=time.perf_counter()
        for _ in range(n//7): f()
        torch.cuda.synchronize(); best=min(best,(time.perf_counter()-s)/(n//7))
    return round(best*1e6,2)
print("torch",tt(lambda:b*b), "tanh ours", t(lambda:__import__('numpy').tanh(B),70), "torch", tt(lambda:torch.tanh(b)))
