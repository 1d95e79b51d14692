"""YAML in which a key may be given once; PyYAML itself takes the last one without a word."""

from typing import Any

import yaml


class UniqueKeyLoader(yaml.SafeLoader):
    """`yaml.SafeLoader` that refuses a repeated key.

    Merges (`<<`) still let a mapping override what it takes over: keys are looked at as they are
    written, before merges.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Read a mapping.

        Raises:
            yaml.MarkedYAMLError: A key is given twice.
        """
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else key
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return node
