"""A network that is really slow, on one machine: network namespaces joined by shaped links, one or more ranks in each.

`python -m benchmarks.netlab` times a step of a model by every way of synchronising its gradients. Needs root, ip, tc.
"""
