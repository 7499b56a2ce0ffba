// Three balls on a chess board: what the farm's tests and documentation render.
#version 3.7;
global_settings { assumed_gamma 1.3 max_trace_level 6 }
#include "ball.inc"
camera { location <0, 2.2, -5> right x * image_width / image_height look_at <0, 0.6, 0> angle 50 }
light_source { <-4, 8, -6>, rgb 1.1 }
light_source { <6, 4, -3>, rgb <0.3, 0.35, 0.5> }
sky_sphere { pigment { gradient y color_map { [0 rgb <0.9, 0.8, 0.7>] [1 rgb <0.2, 0.3, 0.6>] } } }
plane { y, 0 pigment { checker rgb 0.9, rgb <0.2, 0.25, 0.35> } finish { reflection 0.15 } }
object { Ball(<-1.1, 0.8, 0>, <0.9, 0.3, 0.2>) }
object { Ball(<0.9, 0.6, 0.4>, <0.2, 0.6, 0.3>) }
object { Ball(<0.1, 0.35, -1.3>, <0.95, 0.8, 0.3>) }
