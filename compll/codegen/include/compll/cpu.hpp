// The library behind generated CPU kernels.
#pragma once

#include <compll/ascending.hpp>
#include <compll/draws.hpp>
#include <compll/filter.hpp>
#include <compll/fold.hpp>
#include <compll/math.h>
#include <compll/matrix.hpp>
#include <compll/merge.hpp>
#include <compll/orthonormalize.hpp>
#include <compll/philox.h>
#include <compll/scan.hpp>
#include <compll/select.hpp>
#include <compll/sort.hpp>
#include <compll/storage.hpp>
#include <compll/strips.hpp>
