"""K-FAC's damping λ: its rule, and what the rule judges steps by.

- `rule`: λ as it is given, and the change of the loss that the quadratic model foretells.
- `adaptation`: λ that adapts to how well it does so.
- `training_loss`: the change of the loss.

The blocks apply λ: `kfac.fisher_blocks.kronecker` splits it between the factors of a layer,
`CurvatureConfig.damping_power` lowers it where a layer is used several times, and
`kfac.linalg.damped_functions` adds it to matrices.
"""
