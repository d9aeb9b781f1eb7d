"""Generalised additive models with pairwise terms (GA2M): fitted by ``interpret``, served from our own score tables.

``AdditiveModel`` predicts and explains with numpy alone; ``fit_additive`` (in ``fitting``, imported when used)
trains an explainable boosting machine and turns it into one.
"""

from lucid_pipelines.models.additive.model import AdditiveModel, Term
from lucid_pipelines.models.additive.schema import Feature, FeatureKind

__all__ = ["AdditiveModel", "Feature", "FeatureKind", "Term"]
