"""K-FAC's damping λ: its rule, and what the rule judges steps by.

- `rule`: λ as it is given, and what a step asks of any rule.
- `adaptation`: λ that adapts to how well the quadratic model foretells the loss.
- `training_loss`, `model_change`: the two changes that the adaptation compares.

The blocks apply λ: `kfac.fisher_blocks.kronecker` splits it between the factors of a layer,
`CurvatureConfig.damping_power` lowers it where a layer is used several times, and
`kfac.linalg.damped_functions` adds it to matrices.
"""
