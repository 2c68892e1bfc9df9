"""Programs of tensorflow/kfac and tf.contrib.kfac: what bends for them in this package.

Nothing else knows of it. `kfac/__init__.py` calls `bend_for_old_programs` once, when all modules
are there:

* names that are gone or have moved are looked up in the table (`table`, `look_ups`);
* subclasses that override what is never called are refused (`overrides`);
* a model that makes its own layer collection in each tower gets one (`shared_collections`).

`kfac.python` and `kfac.examples` are paths of old modules.
"""

import sys
import types

from kfac.old_programs.look_ups import found_at, look_up_in_module, look_up_in_objects
from kfac.old_programs.overrides import refuse_when_defined, refuse_when_made
from kfac.old_programs.shared_collections import share_among_towers
from kfac.old_programs.table import GONE, MOVED, NEVER_CALLED

__all__ = ["bend_for_old_programs"]


def bend_for_old_programs() -> None:
    """Makes modules and classes of this package serve old programs, or tell them what to use."""
    places = [place for place in {**GONE, **MOVED} if not place.startswith("kfac.python")]
    for place in places:
        found = sys.modules.get(place) or found_at(place)
        if isinstance(found, types.ModuleType):
            look_up_in_module(found)
        else:
            look_up_in_objects(found, place)
    for place, hooks in NEVER_CALLED.items():
        base = found_at(place)
        refuse = refuse_when_made if place.startswith("kfac.optimizer.") else refuse_when_defined
        refuse(base, hooks)
    share_among_towers(found_at("kfac.layer_collection.LayerCollection"))
