"""Plugin of pytest: short pauses between looks at jobs, for tests of a real account in the simulated one."""

from training.services.sagemaker.service import SageMakerService

SageMakerService.pauses_seconds, SageMakerService.log_delay_seconds = (0.05, 0.5), 0.5
