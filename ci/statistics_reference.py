"""Prints the constants that tuner/tests/stats_reference.rs compares with. Needs numpy and scipy.

Nothing here shares code with the tuner: trimmed means are scipy's, Winsorised variances come from
scipy.stats.mstats, Yuen's error is checked against scipy's two-sample trimmed t-test.
"""

import itertools

import numpy as np
from scipy import stats
from scipy.stats import mstats

SAMPLES = {
    # Six log-ratios with one preempted launch: the smallest sample a default look judges.
    "six": [0.011, 0.009, 0.013, 0.008, 0.012, 0.74],
    # The nineteen self-awareness times of Dana (1990), as used in Wilcox, "Introduction to Robust Estimation
    # and Hypothesis Testing": the usual worked example of a 20 % trimmed mean.
    "dana": [77, 87, 88, 114, 151, 210, 219, 246, 253, 262, 296, 299, 306, 376, 428, 515, 666, 1310, 2611],
    "ten": [-0.4, 1.9, 0.3, 0.8, -1.1, 0.2, 5.0, 0.6, 0.1, -7.0],
}


def yuen(values, trim):
    values = np.asarray(values, float)
    n, g = len(values), int(trim * len(values) + 1e-9)
    h = n - 2 * g
    winsorised = np.asarray(mstats.winsorize(values, limits=(g / n, g / n)))
    variance = winsorised.var(ddof=1)
    return stats.trim_mean(values, g / n), variance, np.sqrt((n - 1) * variance / (h * (h - 1))), h - 1


for name, values in SAMPLES.items():
    mean, variance, error, df = yuen(values, 0.2)
    low, high = (mean + sign * stats.t.ppf(0.975, df) * error for sign in (-1, 1))
    pairs = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2)]
    print(f"{name}: mean {mean:.12g} winsorised variance {variance:.12g} error {error:.12g} df {df}")
    print(f"  95 % {low:.12g} .. {high:.12g}, bound at 0.05/35 {mean - stats.t.ppf(1 - 0.05 / 35, df) * error:.12g}")
    print(f"  Hodges-Lehmann {np.median(pairs):.12g}, MAD {stats.median_abs_deviation(values):.12g}")

# The error is the one of scipy's Yuen test: of two samples, its squared errors add up.
first, second = SAMPLES["ten"], [0.5 * value for value in SAMPLES["dana"][:10]]
statistic = stats.ttest_ind(first, second, trim=0.2, equal_var=False).statistic
(m1, _, e1, _), (m2, _, e2, _) = yuen(first, 0.2), yuen(second, 0.2)
print(f"two-sample Yuen t: scipy {statistic:.12g}, from these errors {(m1 - m2) / np.hypot(e1, e2):.12g}")

for df in (1, 3, 5, 23):
    print(f"t quantiles df {df}:", [f"{stats.t.ppf(p, df):.10g}" for p in (0.95, 0.975, 1 - 0.05 / 35)])
