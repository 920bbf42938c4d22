exec(open('.scratch/fn.py').read().split("import cProfile")[0].split("for _ in range(3)")[0])
import gc
def best(f): return min(timeit.repeat(f,number=10,repeat=5))/10*1e4
print("gc off (timeit)",best(a),best(b))
def best2(f): return min(timeit.repeat(f,setup="import gc;gc.enable()",number=10,repeat=5))/10*1e4
print("gc on",best2(a),best2(b))
