"""Running compiled compressors: on one gradient (`compressor`) and inside data-parallel training (`sync`)."""
