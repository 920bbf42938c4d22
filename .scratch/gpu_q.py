import cupy as cp, numpy as np, time
x=cp.full((8,8),.5,cp.float32); y=cp.full((8,8),.7,cp.float32); out=cp.empty_like(x)
src='extern "C" __global__ void mulf(const float* a,const float* b,float* c,long long n){long long i=blockIdx.x*(long long)blockDim.x+threadIdx.x; if(i<n) c[i]=a[i]*b[i];}'
k=cp.RawModule(code=src).get_function("mulf")
def t(f,n=2100):
    for _ in range(200): f()
    cp.cuda.get_current_stream().synchronize(); best=1e9
    for _ in range(9):
        s=time.perf_counter()
        for _ in range(n//7): f()
        cp.cuda.get_current_stream().synchronize(); best=min(best,(time.perf_counter()-s)/(n//7))
    return round(best*1e6,2)
K=k.kernel
print("raw",t(lambda:k((1,),(64,),(x,y,out,64))),"Function",t(lambda:K((1,),(64,),(x,y,out,64))),"linear",t(lambda:K.linear_launch(64,(x,y,out,64))), "linear128",t(lambda:K.linear_launch(64,(x,y,out,64),0,128)))
print("k.kernel",t(lambda:k.kernel))
g,b=(1,),(64,)
print("Function consts",t(lambda:K(g,b,(x,y,out,64))))
shape=(8,8); f32=np.dtype('f4')
print("nd",t(lambda:cp.ndarray(shape,f32)),"nd64",t(lambda:cp.ndarray(64,f32)), "alloc",t(lambda:cp.cuda.alloc(256)))
mp=cp.cuda.alloc(256)
print("nd memptr",t(lambda:cp.ndarray(shape,f32,mp)), "nd memptr strides",t(lambda:cp.ndarray(shape,f32,mp,(32,4))))
pool=cp.get_default_memory_pool()
print("pool.malloc",t(lambda:pool.malloc(256)))
print("nothing", t(lambda:None))
import torch
a=torch.full((8,8),.5,device='cuda'); c=a.clone()
print("torch mul out", end=" ")
o=torch.empty_like(a)
def tt(f,n=2100):
    for _ in range(200): f()
    torch.cuda.synchronize(); best=1e9
    for _ in range(9):
        s=time.perf_counter()
        for _ in range(n//7): f()
        torch.cuda.synchronize(); best=min(best,(time.perf_counter()-s)/(n//7))
    return round(best*1e6,2)
print(tt(lambda:torch.mul(a,c,out=o)),tt(lambda:a*c))
