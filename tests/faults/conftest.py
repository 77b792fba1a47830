# SPDX-License-Identifier: GPL-2.0-only
"""What tests/api has, for the tests of this folder."""

import importlib.util
import os
import sys

API = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api")
sys.path.insert(0, API)
_spec = importlib.util.spec_from_file_location("servers", os.path.join(API, "conftest.py"))
servers = importlib.util.module_from_spec(_spec)
sys.modules["servers"] = servers
_spec.loader.exec_module(servers)
# what the helpers of tests/api take from their conftest, they find here
globals().update({k: v for k, v in vars(servers).items() if not k.startswith("__")})
