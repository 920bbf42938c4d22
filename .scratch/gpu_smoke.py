import sys, pickle, copy, traceback
sys.path.insert(0, '.')
import numpy as np
import adjoint as A
def t(name, f):
    try: print('ok ', name, str(f()).replace('\n',' ')[:150])
    except Exception as e: print('BAD', name, type(e).__name__, str(e)[:300]); traceback.print_exc(limit=-4)
d='cuda'
x=None
t('avail', lambda: (A.cuda.is_available(), A.cuda.device_count(), A.cuda.current_device(), A.cuda.get_device_name(), A.cuda.get_device_capability(), A.cuda.get_device_properties()))
t('zeros', lambda: A.zeros(2,3,device=d))
t('ones', lambda: A.ones(2,device='cuda:0',requires_grad=True))
t('full', lambda: A.full((2,),3.5,device=d))
t('empty', lambda: A.empty(2,3,4,5,device=d,memory_format=A.channels_last).stride())
t('strided', lambda: A.empty_strided((2,3),(1,2),device=d).stride())
t('tensor', lambda: A.tensor([[1.,2],[3,4]],device=d))
t('arange', lambda: (A.arange(5,device=d), A.linspace(0,1,3,device=d), A.eye(2,device=d), A.logspace(0,1,2,device=d)))
t('rand', lambda: (A.rand(2,device=d), A.randn(2,device=d), A.randint(3,(2,),device=d), A.randperm(3,device=d)))
x=A.ones(2,3,device=d)
t('like', lambda: (A.zeros_like(x.t()).stride(), A.rand_like(x).device, A.full_like(x,3), x.new_tensor([1,2]), x.new_zeros(2), x.new([1,2])))
t('inplace', lambda: (x.clone().uniform_(), x.clone().normal_(), x.clone().bernoulli_(0.5), x.clone().random_(5), x.clone().exponential_()))
t('dist', lambda: (A.bernoulli(x*0.5), A.multinomial(x,2), A.normal(x,1.), A.poisson(x)))
t('default', lambda: [A.set_default_device(d), A.zeros(2).device, A.tensor([1.]).device, A.rand(2).device, A.arange(3), A.set_default_device(None)])
def ctx():
    with A.device(d): return A.ones(2).device, A.as_tensor([1.]).device, A.from_numpy(np.ones(2)).device, A.as_tensor(np.ones(2)).device
t('ctx', ctx)
t('to', lambda: (x.cpu().device, x.to('cpu',A.float64), x.cpu().cuda().device, x.cpu().to(x).device))
t('type', lambda: (x.type(), isinstance(x,A.cuda.FloatTensor), isinstance(x,A.FloatTensor), A.cuda.FloatTensor([1,2]), A.cuda.LongTensor(2).shape, x.type('torch.FloatTensor').device))
t('meta', lambda: (x.stride(), x.t().stride(), x[:,1:].storage_offset(), x.is_contiguous(), x.untyped_storage().nbytes(), x.data_ptr()>0, x.get_device(), x.is_cuda, x.element_size(), x.dim_order()))
t('storage', lambda: (x[:,1:].untyped_storage().nbytes(), x.untyped_storage().device))
t('resize', lambda: (A.ones(2,device=d).resize_(4).shape, A.ones(2,device=d).set_(x).shape))
t('numpy', lambda: x.numpy())
t('numpyf', lambda: x.numpy(force=True))
t('pickle', lambda: (pickle.loads(pickle.dumps(x)).device, pickle.loads(pickle.dumps(x.t())).shape))
t('deepcopy', lambda: (copy.deepcopy(x).device, copy.deepcopy(A.nn.Parameter(x)), copy.copy(x).device))
t('repr', lambda: (x, x*2, A.nn.Parameter(x)))
import cupy
t('dlpack', lambda: (cupy.from_dlpack(x), A.from_dlpack(cupy.ones(2)), A.as_tensor(cupy.ones(2)), A.tensor(cupy.ones(2)), A.asarray(cupy.ones(3))))
t('npufunc', lambda: (np.sin(x), np.sum(x), np.concatenate([x,x]).shape, np.multiply(x,2)))
t('arr', lambda: (x*cupy.ones((2,3)), x+1))
t('clone', lambda: (x.clone().stride(), A.ones(1,2,3,4,device=d).clone(memory_format=A.channels_last).stride(), A.ones(3,device=d).expand(2,3).clone().stride()))
t('grad', lambda: [setattr(x,'requires_grad',True), (x*3).sum().backward(), x.grad][2])
t('mem', lambda: (A.cuda.memory_allocated()>0, A.cuda.max_memory_allocated()>0, A.cuda.mem_get_info(), A.cuda.empty_cache(), A.cuda.synchronize()))
def streams():
    s=A.cuda.Stream(); e=A.cuda.Event(enable_timing=True); f=A.cuda.Event(enable_timing=True)
    with A.cuda.stream(s):
        e.record(s); y=A.ones(10,device=d)*2; f.record(s)
    s.synchronize(); return e.elapsed_time(f)>=0, A.cuda.current_stream().query()
t('streams', streams)
t('seed', lambda: (A.manual_seed(0), A.rand(1,device=d)))
class Sub(A.Tensor): pass
t('sub', lambda: (type(x.detach().as_subclass(Sub)+1), x.detach().as_subclass(Sub)))
t('out', lambda: A.add(A.ones(2,device=d),1,out=A.empty(2,device=d)))
t('item', lambda: (x.sum().item(), float(x.sum()), bool(x.sum()), x.tolist()))
t('cudadev', lambda: A.cuda.set_device(0))
