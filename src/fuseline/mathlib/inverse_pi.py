"""2/pi to 1,280 bits, for the reduction of huge arguments of sin, cos and tan.

The value is the integer below over 2**1280; it is recomputed in the tests.
"""

from __future__ import annotations

TWO_OVER_PI_BITS = 1280
TWO_OVER_PI_FRACTION = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
    "56033046fc7b6babf0cfbc209af4361e"
    "",
    16,
)
