//! Colours by temperature: from cold, almost black, over red and yellow to white, the order of glowing metal.
//!
//! Every other band of five degrees is a little darker: their borders are lines of equal temperature. The colour of a
//! temperature depends on nothing else, so rows can be coloured as they arrive.

use crate::slab::HOT;

/// Colours from cold to hot, at equal distances.
const STOPS: [[f64; 3]; 7] = [
    [10.0, 12.0, 30.0],
    [50.0, 18.0, 92.0],
    [130.0, 28.0, 108.0],
    [206.0, 58.0, 72.0],
    [246.0, 122.0, 36.0],
    [254.0, 204.0, 82.0],
    [255.0, 252.0, 230.0],
];
/// Degrees between two lines of equal temperature.
const BAND: f64 = 5.0;
/// How much of its light a darker band keeps.
const DARKER: f64 = 0.9;

/// Three bytes (red, green, blue) for each temperature.
pub fn paint(temperatures: &[f64]) -> Vec<u8> {
    temperatures.iter().flat_map(|&temperature| colour(temperature)).collect()
}

fn colour(temperature: f64) -> [u8; 3] {
    let temperature = temperature.clamp(0.0, HOT);
    let place = temperature / HOT * (STOPS.len() - 1) as f64;
    let index = (place as usize).min(STOPS.len() - 2);
    let t = place - index as f64;
    let light = if (temperature / BAND) as i64 % 2 == 0 { 1.0 } else { DARKER };
    std::array::from_fn(|channel| {
        let (from, to) = (STOPS[index][channel], STOPS[index + 1][channel]);
        ((from + (to - from) * t) * light).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hotter_is_brighter_and_cold_and_hot_are_the_ends() {
        assert_eq!(colour(0.0), [10, 12, 30]);
        assert_eq!(colour(HOT), [255, 252, 230]);
        let light = |temperature| colour(temperature).map(u32::from).iter().sum::<u32>();
        assert!((0..10).all(|ten| light(f64::from(ten) * 10.0) < light(f64::from(ten + 1) * 10.0)));
    }

    #[test]
    fn bands_of_five_degrees_have_visible_borders() {
        assert!(colour(52.4)[0] > colour(57.4)[0] / 10 * 9 && colour(54.999) != colour(55.001));
    }

    #[test]
    fn temperatures_that_cannot_be_have_the_colours_of_the_ends() {
        assert_eq!(colour(-3.0), colour(0.0));
        assert_eq!(colour(f64::INFINITY)[1..], colour(HOT)[1..]);
    }
}
